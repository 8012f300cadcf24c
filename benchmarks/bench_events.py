"""Decoding recordings of event cameras, beside other packages, each in a process of its own.

    HYPERFRAMES_TEST_MEDIA=DIR python benchmarks/bench_events.py [--rounds 15]

Recordings: those published, and for each format one of two million events made of them, written by our writer. Rounds take one
package after another in turn; the file is in the system's cache; opening, reading and decoding all of it into arrays counts,
starting and compiling do not. Events that come out are compared. Results go to results/events.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "rivals"))

from environments import UnavailableError, made
from machine import provenance
from saving import save

RESULTS = HERE / "results/events.json"
LONG = 2_000_000
RECORDINGS = {
    "evt3": ("evt3_gen41_1280x720.raw", ("expelliarmus", "evt3")),
    "evt2": ("evt2_gen3_640x480.raw", ("expelliarmus",)),
    "dat": ("ncars_car_004397.dat", ("expelliarmus",)),
}
"""By format: the published recording, and who else reads it."""


def lengthened(form: str, published: Path, folder: Path) -> Path:
    """Return a recording of `LONG` events: the published one again and again, each time later."""
    import numpy as np

    from hyperframes.frames import Events
    from hyperframes.media.event_files import create_events_file, open_events_file

    file = open_events_file(published)
    events, sensor = file.read(), file.sensor or (240, 304)
    times = events.t - events.t.min()
    span = int(times.max()) + 1
    copies = [
        Events(np.maximum.accumulate(times) + i * span, events.x, events.y, events.p)
        for i in range(-(-LONG // len(times)))
    ]
    path = folder / f"long{published.suffix}"
    with path.open("w+b") as out:
        writer = create_events_file(published.suffix, path, out, sensor, form)
        for one in copies:
            writer.write(one)
        writer.finish()
    return path


class Peer:
    """A process that decodes one recording whenever it is asked to."""

    def __init__(self, python: str, package: str, form: str, path: Path) -> None:
        command = [python, str(HERE / "events/peers.py"), package, form, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.versions = self._answer()

    def ask(self, what: str) -> dict[str, Any]:
        """Return the answer to a request."""
        _open(self._process.stdin).write(what + "\n")
        _open(self._process.stdin).flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = _open(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the process ended: {self._process.args!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Let it go."""
        _open(self._process.stdin).close()
        self._process.wait()


def _open(file: IO[str] | None) -> IO[str]:
    assert file is not None
    return file


def measure(form: str, path: Path, packages: dict[str, str], rounds: int) -> dict[str, Any]:
    """Return speeds, how many times as long others took, and whether they give the same events."""
    peers = {name: Peer(python, name, form, path) for name, python in packages.items()}
    try:
        digests = {name: peer.ask("digest") for name, peer in peers.items()}
        taken: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(rounds + 1):
            for name, peer in peers.items():
                taken[name].append(peer.ask("decode")["cpu_seconds"])
    finally:
        for peer in peers.values():
            peer.end()
    count = digests["hyperframes"]["events"]
    return {
        "events": count,
        "bytes": path.stat().st_size,
        "packages": {
            name: {
                "million_events_per_second": round(count / statistics.median(times[1:]) / 1e6, 1),
                "times": round(
                    statistics.median(b / a for a, b in zip(taken["hyperframes"][1:], times[1:], strict=True)), 2
                ),
                "same_events": digests[name] == digests["hyperframes"],
                "events": digests[name]["events"],
                "versions": peers[name].versions,
            }
            for name, times in taken.items()
        },
    }


def main(arguments: list[str]) -> int:
    """Measure all recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache/hyperframes-events")
    given = parser.parse_args(arguments)
    if "HYPERFRAMES_TEST_MEDIA" not in os.environ:
        parser.error("HYPERFRAMES_TEST_MEDIA names the folder of real files")
    media = Path(os.environ["HYPERFRAMES_TEST_MEDIA"]) / "events"
    try:
        python = made(HERE / "events/peers.txt", given.environments / "peers", {})
    except UnavailableError as error:
        parser.error(str(error))
    values: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for form, (name, others) in RECORDINGS.items():
            packages = {"hyperframes": sys.executable, **dict.fromkeys(others, python)}
            for what, path in (("published", media / name), ("long", lengthened(form, media / name, Path(folder)))):
                values.setdefault(form, {})[what] = measure(form, path, packages, given.rounds)
    told = {"rounds": given.rounds, "values": values, **provenance()}
    save(RESULTS, told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
