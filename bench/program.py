"""How a program of the scale ends: with its figures written, with a refusal in a sentence, or by Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tidemill.errors import TidemillError

INTERRUPTED = 130


class ScaleError(Exception):
    """What cannot be measured, and why."""


def run(main: Callable[[], None]) -> None:
    try:
        main()
    except (ScaleError, TidemillError) as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        print("stopped; what had been measured to its end is kept", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
