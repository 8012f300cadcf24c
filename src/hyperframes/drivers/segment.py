"""What a task on a cluster does: an ordinary engine over one segment, which writes its own pieces of the outputs."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.child import Failure, failure_of
from hyperframes.drivers.engine import Engine, Segment
from hyperframes.drivers.execute import Carried
from hyperframes.drivers.memory import give_back_freed
from hyperframes.drivers.shipping import unpacked
from hyperframes.instruments import Observation
from hyperframes.pipeline import Options
from hyperframes.sinks import Sink, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.drivers.shipping import Package

__all__ = ["News", "Order", "Outcome", "run_segment"]

NEWS_SECONDS = 0.5
"""How often a task tells how far it has come."""
_TOLD = {"sealed", "done", "failed", "dropped", "emitted"}


@dataclass(frozen=True, slots=True)
class Order:
    """What a task is to do."""

    sinks: Mapping[str, Sink]
    """Not opened."""
    places: tuple[Path, ...]
    """Folders of its pieces, which nobody else writes to."""
    options: Options
    """Of the engine; the range is the segment's."""
    told: Mapping[str, Target]
    ends: bool
    """Whether the run ends with it."""
    carried: dict[int, Carried]
    """From the segment before."""


@dataclass(frozen=True, slots=True)
class News:
    """What happened in a task since it told last."""

    observations: list[Observation]
    now_ns: int
    """The clock that they were seen on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a segment."""

    frames_in: int
    frames_out: int
    filtered: int
    hyperframes: int
    retries: int
    failed: list[dict[str, Any]]
    stages: dict[str, float]
    coordination_seconds: float
    """Scheduling, and workers idle while there was work."""
    warnings: list[str]
    output: list[str]
    sure: bool
    """Whether every frame stood where the index says, so that the segments around it join it without gap or overlap."""
    carried: dict[int, Carried]
    """What sequential stages hand to the next segment."""
    files: dict[Path, int] = field(default_factory=dict)
    """Everything written to its folders, with the size in bytes."""
    frames_sha256: str | None = None
    """Of what the first sink was given, where a checksum is asked for."""


def run_segment(package: Package, order: Order) -> Iterator[News | Outcome | Failure]:
    """Run one segment; yield news from time to time, and at the end its outcome, or why there is none."""
    try:
        for place in order.places:
            place.mkdir(parents=True)
        pipeline = unpacked(package, order.sinks, order.options)
        segment = Segment(order.ends, order.told, dict(order.carried))
        watching = _Watching()
        with contextlib.ExitStack() as stack:
            for source in pipeline.sources.values():
                stack.callback(source.close)
            engine = Engine(pipeline, (watching,), segment=segment)
            run = engine.start()
            while not watching.wait(NEWS_SECONDS):
                yield watching.news()
            result = run.wait()
            yield watching.news()
            yield Outcome(
                result.frames_in,
                result.frames_out,
                result.filtered,
                result.hyperframes,
                result.retries,
                result.failed,
                result.stages,
                result.scheduler_share * result.workers * result.seconds,
                result.warnings,
                result.output,
                all(source.sure for source in pipeline.sources.values()),
                segment.carried,
                {path: path.stat().st_size for place in order.places for path in place.rglob("*") if path.is_file()},
                result.frames_sha256,
            )
    except Exception as error:  # noqa: BLE001 - told to the driver, which raises it
        yield failure_of(error)
    finally:
        give_back_freed()


class _Watching:
    """An instrument that keeps what it sees until it is asked."""

    def __init__(self) -> None:
        self._seen: queue.SimpleQueue[Observation] = queue.SimpleQueue()
        self._over = threading.Event()

    def observe(self, observation: Observation) -> None:
        """Take note of what is told, and of the end."""
        if observation["kind"] in _TOLD:
            self._seen.put(observation)
        elif observation["kind"] == "finished":
            self._over.set()

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until the run is over; return whether it is."""
        return self._over.wait(seconds)

    def news(self) -> News:
        """Return what was seen since the last time."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._seen.get_nowait())
        return News(found, time.perf_counter_ns())
