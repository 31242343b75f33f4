"""Needs what is not installed."""

import surely_not_installed


def i(x: int) -> int:
    return surely_not_installed.f(x)
