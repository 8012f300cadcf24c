"""A live run under virtual time, and what tests ask of it."""

from __future__ import annotations

import numpy as np

import hyperframes as hf
from hyperframes.clock import ManualClock
from hyperframes.testing.live import VirtualCrew

FPS = 30


class Run:
    """A live run whose time a test moves; keeps every result and observation."""

    def __init__(self, *, service=0.0, handing_over=0.0, **options):
        self.clock = ManualClock(start_ns=1_000_000_000_000)
        as_function = service if callable(service) else (lambda entries: service)
        self.crew = VirtualCrew(self.clock, as_function, lambda: handing_over)
        self.results, self.seen = [], []
        options.setdefault("on_result", self.results.append)
        options.setdefault("packing", hf.Packing(size=4))
        self.live = hf.LiveRuntime(
            clock=self.clock,
            crew=self.crew,
            instruments=(*options.pop("instruments", ()), self),
            run_id="run",
            **options,
        )
        self.live.start()

    def observe(self, observation):
        self.seen.append(observation)

    def feed(self, stream, number, *, frame_id="number", timestamp="now", value=None):
        """Push a small picture that shows its number."""
        frame = picture(number if value is None else value)
        return self.live.feed(
            stream,
            frame,
            frame_id=number if frame_id == "number" else frame_id,
            timestamp=self.clock.now_ns() / 1e9 if timestamp == "now" else timestamp,
        )

    def play(self, streams, frames, *, first=0, fps=FPS):
        """Let every stream bring `frames` frames at `fps`."""
        for number in range(first, first + frames):
            for stream in streams:
                self.feed(stream, number)
                self.check()
            self.crew.advance(1 / fps)
            self.check()

    def check(self):
        """The ledger closes, at this moment."""
        check_ledger(self.live.stats())

    def stop(self, **options):
        stats = self.live.stop(**options)
        check_ledger(stats)
        assert stats["in_flight"] == 0
        return stats

    def kinds(self, kind):
        return [seen for seen in self.seen if seen["kind"] == kind]

    def ids(self, stream="cam0"):
        return [result.frame_id for result in self.results if result.stream == stream]


def check_ledger(stats):
    for counts in (stats, *stats["streams"].values()):
        assert counts["captured"] == counts["delivered"] + sum(counts["dropped"].values()) + counts["in_flight"], counts
        assert counts["in_flight"] >= 0
    for key in ("captured", "delivered", "in_flight"):
        assert stats[key] == sum(stream[key] for stream in stats["streams"].values())


def picture(number, shape=(6, 8)):
    frame = np.empty(shape, np.uint8)
    frame[...] = number % 251
    frame[0, 0] = (number * 7) % 256
    return frame
