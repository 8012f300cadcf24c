"""What is alike: exact search over vectors held in memory, LanceDB's vector index where there are too many for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.index.position import Position
from hyperframes.index.store import Store
from hyperframes.index.vectors import NUM_FEATURES, best, comparable
from hyperframes.index.where import check_where, quoted
from hyperframes.semantic import Descriptor

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from hyperframes.frames import Array

__all__ = ["Hit", "Index", "open_index"]

IN_MEMORY_ROWS: Final = 1 << 18
"""Datasets of no more are searched exactly: their vectors take half a gigabyte."""
_ANSWER: Final = ("descriptor_id", "source", "start_seconds", "stop_seconds")


class Hit(NamedTuple):
    """One span that was found."""

    source: str
    start_seconds: float
    stop_seconds: float
    score: float
    """How alike it is: the cosine, 1 for the same."""
    descriptor_id: str


class _Memory(NamedTuple):
    """What exact searches need of one version of the dataset."""

    version: int
    answers: Any
    """pyarrow Table of the columns that hits are made of."""
    vectors: Array
    """(n, 512) float32, C-contiguous."""


class Index(Store):
    """A dataset of descriptors that can be searched; made by `open_index`, with the parameters of `Store`."""

    _memory: _Memory | None = None

    def search(
        self, *, like: str | Position | Descriptor | Array, top: int = 10, where: str | None = None
    ) -> list[Hit]:
        """Return the spans that are most alike, best first.

        Parameters
        ----------
        like : str, Position, Descriptor or (512,) array
            A position in a described video such as ``"clip.mp4@12.5"`` (seconds) or ``"clip.mp4@#375"`` (frame), a
            descriptor, or a vector of the form of `Descriptor.semantic_features`.
        top : int
            How many are wanted at most.
        where : str, optional
            Only search those that meet this condition over the columns of descriptors.

        Returns
        -------
        list of Hit
            What was asked for is among them where it is in the dataset. Of equal scores the order is that of the dataset.

        Raises
        ------
        PipelineError
            If `top` is less than 1, or `where` is not a plain condition over columns of descriptors.
        FrameError
            If `like` is of another shape, has no features, or was made with another version of a model.
        SourceError
            If there is no dataset, it cannot be read, or it holds no descriptor at the position.
        """
        return self.search_many(self._query(like)[None], top=top, where=where)[0]

    def search_many(self, features: Array, *, top: int = 10, where: str | None = None) -> list[list[Hit]]:
        """Return for each of several vectors the spans that are most alike; quicker than one by one.

        Parameters
        ----------
        features : (q, 512) array
            Vectors of the form of `Descriptor.semantic_features`.
        top : int
            How many are wanted at most, of each.
        where : str, optional
            Only search those that meet this condition over the columns of descriptors.

        Returns
        -------
        list of list of Hit
            Best first, one list a vector.

        Raises
        ------
        PipelineError
            If `top` is less than 1, or `where` is not a plain condition over columns of descriptors.
        FrameError
            If `features` are of another shape, not finite, or one has no features.
        SourceError
            If there is no dataset, or it cannot be read.
        """
        if top < 1:
            raise PipelineError(f"top: expected 1 or more, got {top}", expected="1 or more", got=top)
        queries = comparable(_checked(features))
        where = None if where is None else check_where(where)
        if self._need().count_rows() > IN_MEMORY_ROWS:
            return [self._ask_lancedb(query, top, where) for query in queries]
        memory = self._in_memory()
        allowed = None if where is None else self._allowed(memory, where)
        rows, scores = best(memory.vectors, queries, top, allowed)
        return [_hits(memory.answers.take(r), s) for r, s in zip(rows, scores, strict=True)]

    def descriptor_at(self, position: str | Position) -> Descriptor:
        """Return the descriptor of the span that holds a position such as ``"clip.mp4@12.5"``.

        Raises
        ------
        PipelineError
            If it is no position.
        SourceError
            If there is none in the dataset.
        """
        at = Position.parse(position) if isinstance(position, str) else position
        column, value = ("core", at.frame) if at.frame is not None else ("seconds", at.seconds)
        first, last = ("core_start", "core_stop") if column == "core" else ("start_seconds", "stop_seconds")
        found = self.descriptors(f"source = {quoted(at.source)} and {first} <= {value} and {last} > {value}", limit=1)
        if not found:
            known = self.count(f"source = {quoted(at.source)}")
            why = f"its {known} descriptors there do not reach it" if known else "nothing of this source is there"
            raise SourceError(
                f"{self.name} holds no descriptor at {at}: {why}",
                source=at.source,
                hint="Add it with 'hyperframes describe SOURCE --to DATASET'; sources are named as they were then.",
            )
        return found[0]

    def _query(self, like: Any) -> Array:
        if isinstance(like, str | Position):
            like = self.descriptor_at(like)
        elif isinstance(like, Descriptor):
            self._check_models([like], None)
        return like.semantic_features if isinstance(like, Descriptor) else np.asarray(like)

    def _in_memory(self) -> _Memory:
        """Return the vectors of the newest version, read again where it is another one."""
        if self._memory is None or self._memory.version != self.version:
            version = self.version
            table = self.rows(columns=[*_ANSWER, "vector"])
            flat = table.column("vector").combine_chunks()
            vectors = flat.flatten().to_numpy().reshape(-1, NUM_FEATURES)
            self._memory = _Memory(version, table.select(_ANSWER).combine_chunks(), vectors)
        return self._memory

    def _allowed(self, memory: _Memory, where: str) -> Array:
        import pyarrow.compute as pc

        ids = self.rows(where, columns=["descriptor_id"]).column("descriptor_id")
        allowed: Array = pc.is_in(memory.answers.column("descriptor_id"), value_set=ids).to_numpy()
        return allowed

    def _ask_lancedb(self, query: Array, top: int, where: str | None) -> list[Hit]:
        asked = self._need().search(query, vector_column_name="vector").distance_type("dot").limit(top)
        asked = asked if where is None else asked.where(where, prefilter=True)
        with self._reading(where):
            found = asked.select([*_ANSWER, "_distance"]).to_arrow()
        return _hits(found, 1 - found.column("_distance").to_numpy())


def open_index(
    location: str | os.PathLike[str],
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Index:
    """Open a dataset of descriptors to add to it or to search it.

    Parameters
    ----------
    location : path or URL
        Ends in ``.lance``: a local folder, or ``s3://``, ``gs://``, ``az://``. The first `Index.add` makes it.
    version : int, optional
        Open this version, to read only; by default the newest.
    storage_options : mapping, optional
        For an object store: keys, region, endpoint, as LanceDB has them.

    Returns
    -------
    Index
        Nothing is read before it is asked for, and there is nothing to close.

    Raises
    ------
    SourceError
        If the location has another suffix, is no dataset of descriptors, is of another schema version, or there is no
        such version.
    MissingExtraError
        If LanceDB is not installed.
    """
    return Index(location, version=version, storage_options=storage_options)


def _checked(features: Array) -> Array:
    features = np.asarray(features)
    if features.ndim != 2 or features.shape[1] != NUM_FEATURES or features.dtype.kind not in "fiu":
        got = f"{features.shape[1:] if features.ndim > 1 else features.shape} {features.dtype}"
        raise FrameError(
            f"what is looked for: expected ({NUM_FEATURES},) numbers, got {got}",
            expected=(NUM_FEATURES,),
            got=features.shape,
        )
    if not np.isfinite(features).all():
        raise FrameError("what is looked for: expected finite numbers, got NaN or infinity", expected="finite numbers")
    if not features.any(axis=1).all():
        raise FrameError(
            "what is looked for has no features: expected numbers other than 0",
            hint="A descriptor without any valid part cannot be compared.",
        )
    return features


def _hits(table: Any, scores: Array) -> list[Hit]:
    ids, *columns = (table.column(name).to_pylist() for name in _ANSWER)
    return [Hit(*row) for row in zip(*columns, scores.astype(np.float64).tolist(), ids, strict=True)]
