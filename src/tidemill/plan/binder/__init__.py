"""Queries: from the tree to a plan. In: a syntax tree and a catalog. Out: plan nodes, arranged by `rules`.

Names are resolved clause by clause, in SQL's order: FROM and WHERE first, since they tell which columns are clocks;
then groups, OVER, the select list, ORDER BY.
"""

from tidemill.plan.binder.relations import Catalog
from tidemill.plan.binder.statements import bind_insert, bind_query, bind_view

__all__ = ["Catalog", "bind_insert", "bind_query", "bind_view"]
