"""Progress is an instrument: a bar on a terminal, else one plain line every ten seconds."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from hyperframes.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hyperframes.instruments import Observation

__all__ = ["Progress", "watched"]

LINE_SECONDS = 10.0
COMPILING_SECONDS = 1.0
PREPARING = "preparing"
COMPILING = "compiling kernels (first run only)..."


class Progress:
    """Counts what the engine announces and says it in one line.

    Parameters
    ----------
    clock : Clock
        Tells the time.
    changed : function, optional
        Called with the Progress after every hyperframe.
    """

    def __init__(self, clock: Clock, changed: Callable[[Progress], None] = lambda progress: None) -> None:
        self._clock, self._changed = clock, changed
        self._began_ns: int | None = None
        self.frames = 0
        self.before = 0
        """Of `frames`: those done by interrupted runs."""
        self.dropped = 0
        self.total: int | None = None
        """Frames the sources say they have; None where nobody knows."""

    def observe(self, observation: Observation) -> None:
        """Take note of frames that came out and of hyperframes that were given up."""
        kind = observation["kind"]
        if kind == "began":
            self.dropped = 0  # the demo runs several times under one bar
            self.frames = self.before = observation.get("frames_before", 0)
            self._began_ns = None
            self.total = observation["setup"].num_frames
        elif kind == "sealed" and self._began_ns is None:
            self._began_ns = self._clock.now_ns()
        elif kind == "emitted" and observation["whole"]:
            self.frames += observation["core"][1] - observation["core"][0]
            self._changed(self)
        elif kind == "dropped":
            self.dropped += observation["core"][1] - observation["core"][0]
            self._changed(self)

    def line(self) -> str:
        """Return frames, frames a second, time left and frames dropped in one line."""
        if self._began_ns is None:
            return PREPARING
        seconds = max(1e-9, (self._clock.now_ns() - self._began_ns) / 1e9)
        rate = (self.frames - self.before) / seconds
        whole = f" of {self.total:,}" if self.total else ""
        parts = [f"{self.frames:,}{whole} frames", f"{rate:,.1f} frames/s"]
        if self.total and rate:
            parts.append(f"{_clock_text(max(0.0, self.total - self.frames) / rate)} left")
        parts.append(f"{self.dropped:,} dropped")
        return ", ".join(parts)


def _clock_text(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


class CompilingNotice:
    """An instrument that calls `say` once when kernels are being compiled and no hyperframe is done for a while.

    Numba tells when it compiles, which it does not where it finds the code of an earlier run. Only this process is
    seen: worker processes compile on their own.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._timer: threading.Timer | None = None
        self._listener: Any = None

    def observe(self, observation: Observation) -> None:
        """Listen from the beginning of a run to the first hyperframe that is done."""
        if observation["kind"] == "began":
            self._listen()
        elif observation["kind"] in {"done", "finished"}:
            self.close()

    def compiling(self) -> None:
        """Be told that a kernel is being compiled."""
        if self._timer is None:
            self._timer = threading.Timer(COMPILING_SECONDS, self._say, [COMPILING])
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Say nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            sys.modules["numba.core.event"].unregister("numba:compile", self._listener)
            self._listener = None

    def _listen(self) -> None:
        events: Any = sys.modules.get("numba.core.event")  # not loaded: no operator of this run has kernels
        if events is None or self._listener is not None:
            return
        notice = self

        class Listener(events.Listener):  # type: ignore[misc]  # only there once Numba is loaded
            def on_start(self, event: Any) -> None:
                notice.compiling()

            def on_end(self, event: Any) -> None:
                """Wait for the next kernel, or for the first hyperframe."""

        self._listener = Listener()
        events.register("numba:compile", self._listener)


@contextmanager
def watched(*, quiet: bool, name: str = "", stream: TextIO | None = None) -> Iterator[tuple[Any, ...]]:
    """Give the instruments that show progress on stderr while the block runs: none if `quiet`."""
    stream = stream or sys.stderr
    if quiet:
        yield ()
        return
    with (_bar if stream.isatty() else _lines)(stream, name) as (progress, say):
        notice = CompilingNotice(say)
        try:
            yield (progress, notice)
        finally:
            notice.close()


@contextmanager
def _bar(stream: TextIO, name: str) -> Iterator[tuple[Progress, Callable[[str], None]]]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[told]}", markup=False),
    )
    with Bar(*columns, console=Console(file=stream), transient=True) as bar:
        shown = bar.add_task(name, total=None, told=PREPARING)

        def update(progress: Progress) -> None:
            bar.update(shown, completed=progress.frames + progress.dropped, total=progress.total, told=progress.line())

        yield Progress(SystemClock(), update), lambda line: bar.console.print(line, markup=False)


@contextmanager
def _lines(stream: TextIO, name: str) -> Iterator[tuple[Progress, Callable[[str], None]]]:
    progress, over = Progress(SystemClock()), threading.Event()
    prefix = f"{name}: " if name else ""

    def say(line: str) -> None:
        print(prefix + line, file=stream, flush=True)

    def tell() -> None:
        told = ""
        while not over.wait(LINE_SECONDS):
            line = progress.line()
            if line != told or line != PREPARING:  # once is enough: what compiles says so itself
                say(line)
            told = line

    thread = threading.Thread(target=tell, name="hyperframes-progress", daemon=True)
    thread.start()
    try:
        yield progress, say
    finally:
        over.set()
        thread.join()
