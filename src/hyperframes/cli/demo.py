"""``hyperframes demo``: the main job on the clip that ships with the package."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.drivers import RunResult
    from hyperframes.drivers.check import CheckReport
    from hyperframes.pipeline import Pipeline

__all__ = ["demo"]

OPERATOR = "denoise"
SIZE = 16
"""The clip is short: with the preset of 36 frames for such pictures, workers and encoder would begin late."""
ROUNDS, RACE_SECONDS = 3, 20.0
"""Runs of each kind, in turns, of which the quickest counts: other programs slow some of them down. No new round begins
after the time is up."""
FAIR_ROUNDS, CLOSE = 3, 0.10
"""Fewer runs, or times that differ by no more, say little about which kind is quicker."""


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the video and the report go.")] = Path(
        "hyperframes-demo"
    ),
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Denoise a short clip: plan, check, run, compare with a plain loop, write demo.mp4 and report.html.

    Needs no network and no options; takes well under a minute on an idle machine.
    """
    from importlib.resources import as_file, files

    from hyperframes.errors import SinkError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(
            f"cannot make the folder {out}: {error.strerror}", sink=str(out), hint="Name another one with --out DIR."
        ) from error
    with ExitStack() as stack:
        clip = stack.enter_context(as_file(files("hyperframes") / "data" / "big_buck_bunny.mp4"))
        try:
            told = _show_everything(clip, out, as_json=as_json, quiet=quiet)
        except KeyboardInterrupt as error:
            raise _show.Interrupted("the demo was interrupted", hint=f"What it had written is in {out}.") from error
    if as_json:
        print(json.dumps(told, indent=2))


def _show_everything(clip: Path, out: Path, *, as_json: bool, quiet: bool) -> dict[str, Any]:
    from hyperframes.cli._progress import watched

    say = _Teller(silent=as_json)
    pipeline = _pipeline(clip, out)
    say.heading("Hyperframes demo", "a short clip of Big Buck Bunny (c) Blender Foundation, CC BY 3.0")
    planned = _plan(pipeline)
    say.step("plan", _plan_text(planned))
    checked = _check_elsewhere(clip, out, quiet=quiet)
    say.step("check", checked.text())
    if not checked.equal:
        raise _show.RunFailed(checked.text(), hint=checked.advice())
    with watched(quiet=quiet, name="run") as instruments:
        packed, plain, rounds = _race(pipeline, clip, out, instruments)
    report = packed.report().save(out / "report.html")
    say.step("run", _run_text(packed))
    say.step("compare", _compare_text(packed, plain, rounds))
    say.line("")
    say.step("video", str(out / "demo.mp4"))
    say.step("report", str(report))
    say.step("next", f"hyperframes run YOURS.mp4 out.mp4 --operator {OPERATOR} --report report.html")
    return {
        "plan": planned,
        "check": checked.to_json(),
        "run": packed.to_json(),
        "plain_loop": {"frames": plain.frames, "seconds": plain.seconds, "frames_sha256": plain.sha256},
        "times_as_fast": plain.seconds / packed.seconds,
        "report": str(report),
    }


def _pipeline(clip: Path, out: Path) -> Pipeline:
    from hyperframes.pipeline import Pipeline

    return Pipeline.of(clip, [OPERATOR], to=out / "demo.mp4", size=SIZE, checksum=True)


def _check_elsewhere(clip: Path, out: Path, *, quiet: bool) -> CheckReport:
    """Check in a process of its own, which holds the whole clip in memory: that must not count as the run's.

    It compiles the kernels, too, and leaves them on the disk for the runs that follow.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as elsewhere:
        return elsewhere.submit(_check, clip, out, quiet).result()


def _check(clip: Path, out: Path, quiet: bool) -> CheckReport:
    from hyperframes.cli._progress import watched
    from hyperframes.drivers.check import check

    with watched(quiet=quiet, name="check") as instruments:
        return check(_pipeline(clip, out), instruments=instruments)


def _plan(pipeline: Pipeline) -> dict[str, Any]:
    from hyperframes.drivers import set_up

    setup = set_up(pipeline)
    try:
        frames = setup.num_frames or 0
        places = list(setup.ranges(frames))
        read = sum(place.read[1] - place.read[0] for place in places)
        halo = setup.plan.operator_halo
        return {
            "total_frames": frames,
            "spec": str(next(iter(setup.sources.values())).spec),
            "size": setup.size,
            "halo": {"before": halo.before, "after": halo.after},
            "hyperframes": len(places),
            "halo_overhead": (read - frames) / max(1, frames),
            "memory_bytes": setup.memory().total,
            "frame_memory_bytes": setup.memory_bytes(),
            "workers": setup.num_workers,
        }
    finally:
        setup.close()


def _race(pipeline: Pipeline, clip: Path, out: Path, instruments: tuple[Any, ...]) -> tuple[RunResult, Any, int]:
    """Run both kinds in turns and return the quickest of each, and of how many; both must give the same frames."""
    import tempfile

    from hyperframes.cli._plain import plain_loop
    from hyperframes.drivers import run
    from hyperframes.media.encode import find_codec
    from hyperframes.operators import create

    codec = find_codec("libx264")
    packed: list[RunResult] = []
    plain: list[Any] = []
    with tempfile.TemporaryDirectory(dir=out, prefix=".plain-") as beside:
        began = time.monotonic()
        while not packed or (len(packed) < ROUNDS and time.monotonic() - began < RACE_SECONDS):
            packed.append(run(pipeline, instruments=instruments))
            plain.append(
                plain_loop(
                    clip,
                    Path(beside) / "plain.mp4",
                    create(OPERATOR),
                    codec=codec.name,
                    codec_options=codec.settings(None, None, "yuv420p"),
                    checksum=True,
                )
            )
    quickest, rival = min(packed, key=lambda r: r.seconds), min(plain, key=lambda r: r.seconds)
    if quickest.frames_sha256 != rival.sha256:
        raise _show.RunFailed(
            "the plain loop and the packed run gave different frames", hint="Please report this with --json's output."
        )
    quickest.peak_memory_bytes = min(result.peak_memory_bytes for result in packed)  # without what a loop left behind
    return quickest, rival, len(packed)


# Text -----------------------------------------------------------------------------------------------------------------


class _Teller:
    """Prints the account of the demo on stdout, with a little colour on a terminal."""

    def __init__(self, *, silent: bool) -> None:

        self._console, self._silent = _show.console(), silent

    def heading(self, name: str, detail: str) -> None:
        """Print what this is."""
        from rich.text import Text

        self._print(Text.assemble((name, "bold"), ": ", detail))
        self.line("")

    def step(self, name: str, said: str) -> None:
        """Print one step, long text under itself."""
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(width=8)
        table.add_column(overflow="fold")
        table.add_row(Text(name, "bold cyan"), Text(said))
        self._print(table)

    def line(self, said: str) -> None:
        """Print plain text."""
        self._print(said)

    def _print(self, what: Any) -> None:
        if not self._silent:
            self._console.print(what)


def _plan_text(planned: dict[str, Any]) -> str:
    from hyperframes.drivers.quantity import bytes_text, count_text, share_text

    halo = planned["halo"]
    return (
        f"{count_text(planned['total_frames'], 'frame')}, {planned['spec']}, in "
        f"{count_text(planned['hyperframes'], 'hyperframe')} of {planned['size']} with halo {halo['before']} + "
        f"{halo['after']}; {share_text(planned['halo_overhead'])} are read twice, none is decoded twice; "
        f"{bytes_text(planned['memory_bytes'])} of memory with {count_text(planned['workers'], 'worker')}, "
        f"{bytes_text(planned['frame_memory_bytes'])} of it for frames, and encoders add to that"
    )


def _run_text(result: RunResult) -> str:
    from hyperframes.drivers.quantity import bytes_text, count_text, rate_text, seconds_text, share_text

    return (
        f"{OPERATOR}: {count_text(result.frames_out, 'frame')} in {seconds_text(result.seconds)}, "
        f"{rate_text(result.frames_per_second)} with decoding and encoding; scheduler share "
        f"{share_text(result.scheduler_share)}, peak memory {bytes_text(result.peak_memory_bytes)}"
    )


def _compare_text(packed: RunResult, plain: Any, rounds: int) -> str:
    from hyperframes.drivers.quantity import count_text, number_text, rate_text

    times = plain.seconds / packed.seconds
    runs = "1 run each" if rounds == 1 else f"the quickest of {count_text(rounds, 'run')} each"
    text = (
        f"the plain loop (same frames, same kernel, same decoder and encoder) does "
        f"{rate_text(plain.frames / plain.seconds)}: packed is {number_text(times)} times as fast ({runs})"
    )
    if rounds < FAIR_ROUNDS:
        return f"{text}; the machine was too busy for {FAIR_ROUNDS} runs each: run it again when it is idle"
    if abs(times - 1) <= CLOSE:
        return f"{text}; that close, it may be that the machine was busy: run it again when it is idle"
    return text
