"""The command `tidemill`. Commands are loaded when they are called, so that `check` needs neither Spark nor Arrow.

Exit codes: 0 done or stopped by Ctrl-C; 1 the script is wrong; 2 usage; 3 a cluster or a job failed.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from tidemill import __version__
from tidemill.errors import TidemillError

# name → (where it lives, one line for --help)
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("tidemill.cli.run:run", "Run scripts: every INSERT becomes a job."),
    "check": ("tidemill.cli.check:check", "Check scripts without running them."),
    "explain": ("tidemill.cli.explain:explain", "Show how the jobs of scripts are planned."),
    "translate": (
        "tidemill.cli.translate:translate",
        "Write a script of another dialect as today's Flink SQL.",
    ),
    "format": ("tidemill.cli.format:format", "Lay out scripts, comments kept."),
    "demo": ("tidemill.cli.demo:demo", "See a page-view script run on an embedded Kafka."),
    "status": ("tidemill.cli.status:status", "Show how far the jobs of a checkpoint have come."),
    "state": ("tidemill.cli.state:state", "Look into checkpoints, and change their parallelism."),
    "broker": ("tidemill.cli.broker:broker", "Start, stop and look at the embedded Kafka."),
    "topic": ("tidemill.cli.topic:topic", "Create, list, write and read topics."),
    "auth": ("tidemill.cli.auth:auth", "Keep what tables log in with under names."),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidemill")
def cli() -> None:
    """Run Flink-SQL scripts over Kafka on Spark."""


def _only_installed_code() -> None:
    """`python -c` and `-m` look for modules in the current directory first, and Spark starts its Python workers so:
    what lies there is not loaded for having a good name."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = os.getcwd()
    if sys.path[:1] in ([""], [here]) and not sys.flags.safe_path and here not in given:
        del sys.path[0]
    os.environ.setdefault("PYTHONSAFEPATH", "1")


def main() -> None:
    _only_installed_code()
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as wrong:
        wrong.show()
        code = wrong.exit_code
    except TidemillError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 0
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); nothing more to say.
        sys.stderr.close()
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
