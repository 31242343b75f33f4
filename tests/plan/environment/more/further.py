"""Found through python.files."""


def f(x: int) -> int:
    return x
