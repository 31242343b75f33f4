"""Written for PyFlink."""

from pyflink.table.udf import udf


@udf(result_type="INT")
def g(x):
    return x
