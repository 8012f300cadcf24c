"""``hyperframes describe``: descriptors of videos, into a dataset or a file."""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.semantic import Descriptions, Descriptor

__all__ = ["describe"]


def describe(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="What is read.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="DATASET.lance|FILE",
            help="Where the descriptors go: a dataset (extra index), to which only what is new is added, or a file "
            "ending in .arrow or .parquet.",
        ),
    ],
    detector: Annotated[
        str,
        typer.Option(
            metavar="FILE.onnx|auto|none",
            help="A NanoDet model file; auto looks for nanodet-416.onnx in the folders of HYPERFRAMES_MODELS.",
        ),
    ] = "auto",
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="NAME", help="A task whose projection is noted; zero-shot where it was never fitted."
        ),
    ] = None,
    two_pass: Annotated[
        bool,
        typer.Option("--two-pass", help="Take noise and levels from the whole file, not from the 60 s before a frame."),
    ] = False,
    sync: Annotated[
        bool,
        typer.Option("--sync", help="Measure in a pass before how much later sound comes, and move anchors by it."),
    ] = False,
    size: _options.Size = None,
    workers: _options.Workers = None,
    frame_range: _options.FrameRange = None,
    rate: _options.Rate = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Describe each segment of videos: when something matters, where, and what it looks like.

    Sources that a dataset holds already, made in the same way, are left out.

    Example: hyperframes describe in.mp4 --to library.lance
    """
    from hyperframes.cli import _build
    from hyperframes.cli._progress import watched
    from hyperframes.semantic import describe as described
    from hyperframes.semantic import find_anchors, measure_sync

    target = _Dataset(to) if to.rstrip("/").endswith(".lance") else _File(to)
    options = _options.options_given(size=size, workers=workers, range=frame_range)
    for source in sources:
        with watched(quiet=quiet) as instruments, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            lag = measure_sync(source, find_anchors(source, two_pass=two_pass, **options)) if sync else None
            found = described(
                _build.source_of(source, rate, options),
                detector=None if detector == "none" else detector,
                tasks=tasks or (),
                two_pass=two_pass,
                sync=lag,
                instruments=(*instruments, _show.RunBegins()),
                **options,
            )
            with contextlib.closing(found):
                target.take(found)
        for text in dict.fromkeys(str(w.message) for w in told if issubclass(w.category, UserWarning)):
            _show.tell("warning", text)
    counts = target.finish()
    if as_json:
        print(json.dumps({**counts, "sources": len(sources), "output": to}))
    else:
        print(f"{to}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


class _File:
    """Keeps all descriptors and writes them at the end."""

    def __init__(self, path: str) -> None:
        from hyperframes.semantic import check_path

        check_path(path)
        self._path = path
        self._made: list[Descriptor] = []

    def take(self, found: Descriptions) -> None:
        """Keep the descriptors."""
        self._made += found

    def finish(self) -> dict[str, int]:
        """Write the file."""
        from hyperframes.semantic import save

        save(self._made, self._path)
        return {"descriptors": len(self._made), "degraded": sum(d.degraded for d in self._made)}


class _Dataset:
    """Adds each source's descriptors to a dataset as they come, but for sources that it holds."""

    def __init__(self, location: str) -> None:
        from hyperframes.index import Store

        self._store = Store(location)
        self._added = self._unchanged = 0

    def take(self, found: Descriptions) -> None:
        """Add the descriptors of one source."""
        if self._store.holds(found.content_hash, found.parameters):
            self._unchanged += 1
            return
        self._added += self._store.add(found).added

    def finish(self) -> dict[str, int]:
        """Return what was done."""
        return {"descriptors": self._added, "sources_unchanged": self._unchanged}
