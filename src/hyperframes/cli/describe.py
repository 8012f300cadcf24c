"""``hyperframes describe``: descriptors of videos, into a dataset or a file."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options, _show
from hyperframes.errors import CancelledError, FrameError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hyperframes.semantic import Descriptions, Descriptor

__all__ = ["describe"]

_VIDEO_SUFFIXES = {
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mts", ".m2ts", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp"),
    *(".ogv", ".mxf", ".y4m"),
}
"""What is taken out of a folder; files of other names are described when they are named themselves."""

_WORDS = {
    "descriptors": ("descriptor", "descriptors"),
    "sources_unchanged": ("source unchanged", "sources unchanged"),
}
"""How a count of each kind reads, of one and of more; others read as they are called."""


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
    regions: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:k=v,...]", help="An operator that says where something matters: region_net:weights=FILE."
        ),
    ] = None,
    faces: Annotated[str | None, typer.Option(metavar="FILE.onnx", help="A YuNet model file: faces matter.")] = None,
    flow: _options.Flow = None,
    refiner: _options.Refiner = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="NAME", help="A task whose projection is noted; zero-shot where it was never fitted."
        ),
    ] = None,
    two_pass: _options.TwoPass = False,
    sync: Annotated[
        bool,
        typer.Option("--sync", help="Measure in a pass before how much later sound comes, and move anchors by it."),
    ] = False,
    encoder: Annotated[
        str,
        typer.Option(
            metavar="NAME|auto|none",
            help="What brings pictures and texts together, for search --text: an encoder that a plugin registered; auto "
            "takes the label bridge where its models are in the folders of HYPERFRAMES_MODELS.",
        ),
    ] = "auto",
    cache: _options.SemanticCache = None,
    cache_ttl: _options.CacheTtl = 3600.0,
    size: _options.Size = None,
    workers: _options.Workers = None,
    frame_range: _options.FrameRange = None,
    rate: _options.Rate = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Describe each segment of videos: when something matters, where, and what it looks like.

    A folder stands for all videos in it. Sources that a dataset holds already, made in the same way, are left out; one that
    has changed replaces what was there of it. Of several sources one that cannot be read is told of, and the others go on.

    Example: hyperframes describe in.mp4 --to library.lance
    """
    from hyperframes.cli import _build
    from hyperframes.cli._progress import watched
    from hyperframes.drivers.quantity import count_text
    from hyperframes.semantic import Anchors, find_anchors, measure_sync, open_cache
    from hyperframes.semantic import describe as described

    target = _Dataset(to) if to.rstrip("/").endswith(".lance") else _File(to)
    options = _options.options_given(size=size, workers=workers, range=frame_range)
    kept = None if cache is None else open_cache(cache, ttl_seconds=cache_ttl)

    def take(source: str) -> None:
        with watched(quiet=quiet) as instruments:
            lag = measure_sync(source, find_anchors(source, two_pass=two_pass, cache=kept, **options)) if sync else None
            found = described(
                _build.source_of(source, rate, options),
                detector=None if detector == "none" else detector,
                regions=regions,
                faces=faces,
                flow=flow,
                anchors=Anchors(refiner=refiner or ""),
                tasks=tasks or (),
                two_pass=two_pass,
                sync=lag,
                text=None if encoder == "none" else encoder,
                cache=kept,
                instruments=(*instruments, _show.RunBegins()),
                **options,
            )
            with contextlib.closing(found):
                target.take(found)

    chosen = _videos_in(sources)
    known: set[str] = set()
    try:
        failed = [source for source in chosen if not _taken(take, source, known, alone=len(chosen) == 1)]
    except (KeyboardInterrupt, CancelledError) as error:
        raise _show.Interrupted("interrupted", hint=target.kept()) from error
    counts = target.finish()
    if as_json:
        print(json.dumps({**counts, "sources": len(chosen), "failed": failed, "output": to}))
    else:
        print(
            f"{to}: " + ", ".join(count_text(count, *_WORDS.get(name, (name, name))) for name, count in counts.items())
        )
    if failed:
        raise typer.Exit(1)


def _taken(take: Callable[[str], None], source: str, known: set[str], *, alone: bool) -> bool:
    """Return whether a source was described; of several, one that cannot be is told of, and the others go on."""
    with _show.warnings_told(known):
        try:
            take(source)
        except (SourceError, FrameError) as error:
            if alone:
                raise
            _show.tell("error", str(error))
            return False
    return True


def _videos_in(sources: Sequence[str]) -> list[str]:
    """Return the sources with every folder of videos replaced by those in it, at any depth, by name."""
    chosen: list[str] = []
    for source in sources:
        inside = sorted(Path(source).rglob("*")) if Path(source).is_dir() else []
        found = [str(path) for path in inside if path.suffix.lower() in _VIDEO_SUFFIXES]
        chosen += found or [source]
    return chosen


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

    def kept(self) -> str:
        """Return what an interruption leaves."""
        return f"Nothing was written: {self._path} is made at the end."

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
        self._store.check_writable()
        self._added = self._unchanged = self._deleted = 0

    def take(self, found: Descriptions) -> None:
        """Add the descriptors of one source."""
        if self._store.holds(found.content_hash, found.parameters):
            self._unchanged += 1
            return
        done = self._store.update(found)
        self._added, self._deleted = self._added + done.added, self._deleted + done.deleted

    def kept(self) -> str:
        """Return what an interruption leaves."""
        from hyperframes.drivers.quantity import count_text

        kept = count_text(self._added, *_WORDS["descriptors"])
        return f"{kept} of finished sources kept; the same command goes on from there."

    def finish(self) -> dict[str, int]:
        """Return what was done."""
        return {"descriptors": self._added, "replaced": self._deleted, "sources_unchanged": self._unchanged}
