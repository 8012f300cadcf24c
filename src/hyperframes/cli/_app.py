"""The commands under one name. Nothing heavy is imported before a command needs it: ``--help`` must be quick."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hyperframes.cli import _show
from hyperframes.cli._show import exit_code_of
from hyperframes.cli.advise import advise
from hyperframes.cli.anchors import anchors
from hyperframes.cli.bench import bench
from hyperframes.cli.budget import budget
from hyperframes.cli.demo import demo
from hyperframes.cli.describe import describe
from hyperframes.cli.doctor import doctor
from hyperframes.cli.evaluate import evaluate
from hyperframes.cli.export import export
from hyperframes.cli.index import index
from hyperframes.cli.inspect import inspect
from hyperframes.cli.journal import journal
from hyperframes.cli.live import live
from hyperframes.cli.operators import operators
from hyperframes.cli.plan import plan
from hyperframes.cli.replay import replay
from hyperframes.cli.run import run
from hyperframes.cli.search import search
from hyperframes.cli.train import train
from hyperframes.cli.tune import tune

__all__ = ["app", "exit_code_of"]


class _PlainHelp:
    """Shows flags without a type in --help: there is nothing to write after them; and says once that more may follow."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]  # as below
        return [piece.removesuffix("...") if "..." in piece[:-3] else piece for piece in pieces]

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]  # of the parser's class that stands beside it
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Command(_PlainHelp, TyperCommand):
    pass


class _Group(_PlainHelp, TyperGroup):
    pass


app = typer.Typer(
    name="hyperframes",
    cls=_Group,
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
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", callback=_show.set_debug, help="Show tracebacks.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


EPILOGS = {
    "run": "Reads video of any kind, y4m (- is standard input), images (a folder, 'in/*.png', in/%06d.png), .npy, .zarr, "
    ".csv, .tsv, .parquet, raw samples (x.raw?shape=480,640&dtype=uint8) and synthetic:moving. Writes .mp4, .mkv, .mov, "
    ".webm, .avi, .y4m (- is standard output), images (out/ or out/%06d.png), .npy, .zarr, .csv, .parquet, .lance, .jsonl, mqtt:// "
    "and nats:// (messages) and null: (nothing). docs/formats.md has them all, with their options and an example of --config.",
    "journal": "Conditions compare a field by =, !=, <, <=, >, >=, ~ (contains), between A and B or in (A, B), and are joined by "
    "and, or, not and brackets. Fields: stream, time (when its frames were taken), outcome (delivered, dropped, open), reason, "
    "seal_reason, frame (an id it holds), frames (how many), sequence, id, kind, epoch, run, error, sealed, started, ended, "
    "wait, latency, duration. Times are 12:00, 12:00:01.5 or 2026-11-30T12:00, without a date of the journal's last day; "
    "durations 200ms or 1.5s.",
}


def _flowing(text: str | None) -> str:
    """Return a docstring with each paragraph on one line: terminals are narrower than code, and break it again."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


for command in (
    *(run, plan, tune, budget, live, journal, replay),
    *(anchors, describe, search, index, train, evaluate, export, inspect, advise, operators, doctor, bench, demo),
):
    app.command(cls=_Command, help=_flowing(command.__doc__), epilog=EPILOGS.get(command.__name__))(command)
