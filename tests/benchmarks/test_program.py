"""How the programs of the scale end, and what ends with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import program
from bench.engines import EngineError
from bench.workloads import CaseError
from harness.processes import family
from harness.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
ASKER = """
import signal, sys
from pathlib import Path
from bench.engines import Engine
print(Engine([sys.executable, "-c", "import time; time.sleep(60)"], Path(sys.argv[1]), {}).pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("refusal", [EngineError("flink has died"), CaseError("there is no q99")])
def test_a_refusal_is_its_sentence(refusal: Exception) -> None:
    def main() -> None:
        raise refusal

    with pytest.raises(SystemExit) as end:
        program.run(main)
    assert end.value.code == str(refusal)


def test_a_stop_says_what_becomes_of_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        program.run(main)
    assert end.value.code == 130
    assert capsys.readouterr().err == "stopped; what had been measured to its end is kept\n"


def test_an_engine_ends_with_who_asks_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKER, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as asker:
        assert asker.stdout
        engine = int(asker.stdout.readline())
        assert any(family(engine).values())
        asker.kill()
    # One that has ended and was not waited for has no command line any more.
    wait_for(lambda: not any(family(engine).values()))
