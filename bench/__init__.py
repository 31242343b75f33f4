"""Measuring: `make bench`, `bench-quick`, `bench-latency`, `bench-growth`; README.md says how, docs/performance.md what
came out.
"""
