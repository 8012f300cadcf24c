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
        self.dropped = 0
        self.total: int | None = None
        """Frames the sources say they have; None where nobody knows."""

    def observe(self, observation: Observation) -> None:
        """Take note of frames that came out and of hyperframes that were given up."""
        kind = observation["kind"]
        if kind == "began":
            self.frames = self.dropped = 0  # the demo runs several times under one bar
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
            return "preparing"
        seconds = max(1e-9, (self._clock.now_ns() - self._began_ns) / 1e9)
        rate = self.frames / seconds
        whole = f" of {self.total:,}" if self.total else ""
        parts = [f"{self.frames:,}{whole} frames", f"{rate:,.1f} frames/s"]
        if self.total and self.frames:
            parts.append(f"{_clock_text(max(0.0, self.total - self.frames) / rate)} left")
        parts.append(f"{self.dropped:,} dropped")
        return ", ".join(parts)


def _clock_text(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


@contextmanager
def watched(*, quiet: bool, name: str = "", stream: TextIO | None = None) -> Iterator[tuple[Any, ...]]:
    """Give the instruments that show progress on stderr while the block runs: none if `quiet`."""
    stream = stream or sys.stderr
    if quiet:
        yield ()
    elif stream.isatty():
        with _bar(stream, name) as progress:
            yield (progress,)
    else:
        with _lines(stream, name) as progress:
            yield (progress,)


@contextmanager
def _bar(stream: TextIO, name: str) -> Iterator[Progress]:
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
        shown = bar.add_task(name, total=None, told="preparing")

        def update(progress: Progress) -> None:
            bar.update(shown, completed=progress.frames + progress.dropped, total=progress.total, told=progress.line())

        yield Progress(SystemClock(), update)


@contextmanager
def _lines(stream: TextIO, name: str) -> Iterator[Progress]:
    progress, over = Progress(SystemClock()), threading.Event()
    prefix = f"{name}: " if name else ""

    def tell() -> None:
        while not over.wait(LINE_SECONDS):
            print(prefix + progress.line(), file=stream, flush=True)

    thread = threading.Thread(target=tell, name="hyperframes-progress", daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        over.set()
        thread.join()
