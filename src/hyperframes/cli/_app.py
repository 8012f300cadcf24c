"""The commands under one name. Nothing heavy is imported before a command needs it: ``--help`` must be quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hyperframes.cli import _show
from hyperframes.cli.demo import demo
from hyperframes.cli.doctor import doctor
from hyperframes.cli.operators import operators
from hyperframes.cli.plan import plan
from hyperframes.cli.run import run

__all__ = ["app", "main"]

app = typer.Typer(
    name="hyperframes",
    help="Pack frames of video and sensor data into scheduled hyperframes, and run operators over them.",
    epilog="Results go to stdout, everything else to stderr. Exit: 0 done, 1 run failed, 2 wrong usage, 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,  # _show tells errors
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from hyperframes import __version__

        print(f"hyperframes {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", callback=_show.set_debug, help="Show tracebacks.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (run, plan, operators, doctor, demo):
    app.command()(command)


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(_show.exit_code_of(app, sys.argv[1:]))
