"""What is alike: exact search over vectors held in memory, LanceDB's vector index where there are too many for that."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.frames import Array
from hyperframes.index.copies import KNOWN_SECONDS, find_copies
from hyperframes.index.integrity import find_damaged
from hyperframes.index.looking import Stretch, look_around, look_at
from hyperframes.index.position import Position
from hyperframes.index.store import Store
from hyperframes.index.vectors import NUM_FEATURES, best, comparable
from hyperframes.index.videos import ANSWER, Hit, Videos
from hyperframes.index.where import check_where, quoted
from hyperframes.semantic import TASKS, Descriptor, schema
from hyperframes.semantic.arrow import looks_from
from hyperframes.semantic.bridge import get_image_encoder
from hyperframes.semantic.look import Looks

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from hyperframes.semantic.bridge import ImageEncoder
    from hyperframes.semantic.tasks import Projection

__all__ = ["Coverage", "Hit", "Index", "Recall", "open_index"]

IN_MEMORY_ROWS: Final = 1 << 18
"""Datasets of no more are searched exactly: their vectors take half a gigabyte."""
NUM_PROBES: Final = 32
"""Parts of the vector index that are looked through at least."""
REFINED: Final = 5
"""So many times as many as are wanted are compared exactly."""
NUM_BITS: Final = 4
"""Of each number of a vector are kept in the vector index."""
_TRACKED_ROWS: Final = 1 << 15
"""Of so many spans all looks are held and compared: some hundred megabytes."""
_NEAR: Final = 512
_ITERATIONS: Final = 12  # of clustering: more change little
_SAMPLED: Final = 64  # vectors a part that centres are found from: more take longer and change little
_INDEX_KIND: Final = "IVF_RQ"
_SAME: Final = 1e-5
_LENGTH_ERROR: Final = 1e-3
_AT_ONCE: Final = 8192
_QUERIES_AT_ONCE: Final = 64  # of the vector index: what each costs besides is shared
_MOST_TASKS: Final = 4
_CANDIDATES: Final = 20
"""Of a large dataset so many times as many as are wanted are looked for in each space, before they are compared."""


@dataclass(slots=True, eq=False)
class _Memory:
    """What exact searches need of one version of the dataset; texts and tasks when they are first asked for."""

    version: int
    answers: Any
    """pyarrow Table of the columns that hits are made of."""
    vectors: Array
    """(n, 512) float32, C-contiguous."""
    parts: Array
    """(n,) float32: how many parts are valid."""
    texts: Array | None = None
    """(n, 384) float32, zero where there is none."""
    videos: Videos | None = None
    tasks: dict[str, _Projected] = field(default_factory=dict)
    """By task and version of its projection; the latest few."""


class _Projected(NamedTuple):
    """Features times a projection, so that the greatest scalar product is the least distance."""

    rows: Array
    """(n, 257) float32: what is projected, and minus half its squared length."""
    variance: float
    """Mean squared distance from the mean."""


class Coverage(NamedTuple):
    """How a dataset is searched."""

    kind: str
    """``exact`` in memory, ``index``, or ``scan`` for a large one without an index."""
    num_descriptors: int
    num_indexed: int
    num_unindexed: int
    """Looked at one by one besides the index, until `Index.optimize`."""


class Recall(NamedTuple):
    """How much of what an exact search finds the dataset's own search finds."""

    recall: float
    """Share in [0, 1]; what is as alike as the last exact hit counts."""
    top: int
    num_queries: int
    exact_seconds: float
    """A query, when all are looked for at once."""
    seconds: float
    """A query, one after the other."""


class Index(Store):
    """A dataset of descriptors that can be searched; made by `open_index`, with the parameters of `Store`."""

    _memory: _Memory | None = None
    _text_models: tuple[int, set[str]] | None = None

    def search(
        self,
        *,
        like: str | Position | Descriptor | Array | None = None,
        image: str | os.PathLike[str] | Array | None = None,
        text: str | None = None,
        task: str | None = None,
        top: int = 10,
        where: str | None = None,
        encoder: str | ImageEncoder = "auto",
    ) -> list[Hit]:
        """Return the spans that are most alike, best first. One of `like`, `image` and `text` says what to.

        Parameters
        ----------
        like : str, Position, Descriptor or (512,) array, optional
            A position in a video such as ``"clip.mp4@12.5"`` (seconds) or ``"clip.mp4@#375"`` (frame), a descriptor, or a vector
            of the form of `Descriptor.semantic_features`. The score is the mean cosine of the parts. A file that was not described
            is described around the position first. Of a position copies come first, with `Hit.at_seconds` and the
            score of `find_copies`: places whose looks are those around it, though encoded anew, cropped, or played faster.
        image : path or (H, W, 3) array of uint8, optional
            A picture: what is in it and its texture are compared, and what an encoder of pictures sees in it where the
            dataset has text vectors. The score is the mean of these cosines.
        text : str, optional
            What is to be seen. The score is the cosine with `Descriptor.text_vector`.
        task : str, optional
            Compare only what matters for a task, by its projection in `hyperframes.semantic.TASKS`; a `ZeroShotWarning` says
            so where it is only guessed from the text of the task. The score is ``1 - d^2 / (2 v)`` for the distance d of what
            is projected and its variance v in the dataset: for vectors of one length, the cosine. Only with `like`.
        top : int
            How many are wanted at most.
        where : str, optional
            Only search those that meet this condition over the columns of descriptors.
        encoder : str or ImageEncoder
            What brings texts and pictures into one space: a name in `hyperframes.registry.encoders`, by default the label bridge
            from the models in the folders of ``HYPERFRAMES_MODELS``.

        Returns
        -------
        list of Hit
            What was asked for is among them where it is in the dataset. Of equal scores the order is that of the dataset.

        Raises
        ------
        PipelineError
            If not one of `like`, `image` and `text` is given, `task` without `like`, `top` is less than 1, or `where` is not a
            plain condition over columns of descriptors.
        FrameError
            If `like` is of another shape, has no features, or was made with another version of a model; if the text means
            nothing to the encoder, or no descriptor has a text vector of it.
        SourceError
            If there is no dataset, it or the picture cannot be read, it holds no descriptor at the position, or a model file is
            not there.
        """
        _check_question(like, image, text, task)
        _check_top(top)
        where = None if where is None else check_where(where)
        self._need()
        if text is not None:
            return self._search_text(get_image_encoder(encoder), text, top, where)
        if image is not None:
            return self._search_image(encoder, image, top, where)
        stretch = self._around(like) if isinstance(like, str | Position) else None
        features = self._query(like if stretch is None else stretch.descriptor)
        if task is not None:
            return self._search_task(_checked(features[None])[0], task, top, where)
        hits = self.search_many(features[None], top=top, where=where)[0]
        if stretch is None:
            return hits
        copies = self.copies(stretch.looks, stretch.seconds, features, top=top, where=where)
        known = {hit.descriptor_id for hit in copies}
        return [*copies, *(hit for hit in hits if hit.descriptor_id not in known)][:top]

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
        _check_top(top)
        queries = comparable(_checked(features))
        where = None if where is None else check_where(where)
        if self._is_large():
            several = (queries[k : k + _QUERIES_AT_ONCE] for k in range(0, len(queries), _QUERIES_AT_ONCE))
            return [_hits(*found) for some in several for found in self._ask_many("vector", some, top, where)]
        memory = self._in_memory()
        rows, scores = best(memory.vectors, queries, top, self._allowed(memory, where))
        return [_hits(memory.answers.take(r), s) for r, s in zip(rows, scores, strict=True)]

    def copies(
        self, looks: Looks, at: float, features: Array | None = None, *, top: int = 10, where: str | None = None
    ) -> list[Hit]:
        """Return the spans that hold copies of a stretch of video, and when in them; see `hyperframes.index.find_copies`.

        Parameters
        ----------
        looks : Looks
            As in `Descriptor.looks`, of one video.
        at : float
            The instant in it that is looked for, in seconds.
        features : (512,) array, optional
            Of the span that holds it: of more than 32,768 spans the looks of those 512 are compared whose features are most
            alike; needed there.
        top : int
            How many are wanted at most.
        where : str, optional
            Only search spans that meet this condition over the columns of descriptors.

        Returns
        -------
        list of Hit
            Best first; empty where there is none.
        """
        videos = self._videos(features, None if where is None else check_where(where))
        found: dict[str, Hit] = {}
        for copy in find_copies(videos.tracks, looks, at, top=top):
            span = videos.span_of(copy)
            if span is not None:
                found.setdefault(span.descriptor_id, span)
        return list(found.values())

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
                hint="Add it with 'hyperframes describe SOURCE --to DATASET'; sources are named as they were then, and files "
                "that were not described need to be there.",
            )
        return found[0]

    # The vector index ---------------------------------------------------------------------------------------------------

    def coverage(self) -> Coverage:
        """Return how the dataset is searched, and how much of it the vector index knows."""
        table = self._need()
        rows = int(table.count_rows())
        with self._reading():
            stats = table.index_stats(_index_name("vector"))
        known = 0 if stats is None else int(stats.num_indexed_rows)
        kind = "exact" if rows <= IN_MEMORY_ROWS else "index" if known else "scan"
        return Coverage(kind, rows, known, rows - known)

    def optimize(self) -> Coverage:
        """Join small files; make the vector index of a large dataset, or bring it up to date.

        Small datasets are searched exactly and need none. The index is made anew when more has come than it knows, or when it is
        of a kind that earlier versions made.

        Raises
        ------
        SourceError
            If there is no dataset.
        SinkError
            If it cannot be written.

        Notes
        -----
        An inverted file [1]_ over vectors rotated at random and kept in four bits a number, with what corrects their distances [2]_:
        vectors are put into parts by their nearest of some centres, as many as the square root of how many there are. A search
        looks through the nearest 32 parts, and compares 5 times as many as are wanted by their whole vectors. What is not in
        the index yet is compared whole.

        References
        ----------
        .. [1] H. Jegou, M. Douze, C. Schmid, "Product Quantization for Nearest Neighbor Search", IEEE TPAMI 33(1), 2011.
           DOI: 10.1109/TPAMI.2010.57
        .. [2] J. Gao, C. Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for Approximate
           Nearest Neighbor Search", Proceedings of the ACM on Management of Data 2(3), 2024. DOI: 10.1145/3654970
        """
        now = self.coverage()
        if now.num_descriptors > IN_MEMORY_ROWS:
            table = self._writable()
            with self._writing():
                seen = self.count("text_model != ''")
                for column, rows in (("vector", now.num_descriptors), ("text_vector", seen)):
                    if rows > IN_MEMORY_ROWS and _is_stale(table.index_stats(_index_name(column))):
                        self._build(table, column, rows)
        self.compact()
        return self.coverage()

    @staticmethod
    def _build(table: Any, column: str, rows: int) -> None:
        from lancedb.index import IvfRq

        config = IvfRq(
            distance_type="cosine",
            num_partitions=min(1 << round(np.log2(np.sqrt(rows))), max(1, rows // 256)),
            num_bits=NUM_BITS,
            max_iterations=_ITERATIONS,
            sample_rate=_SAMPLED,
        )
        table.create_index(column, config=config, name=_index_name(column))

    def check_recall(self, *, num_queries: int = 100, top: int = 10, seed: int = 0) -> Recall:
        """Compare the dataset's search with an exact one over all of it, for descriptors taken from it at random.

        Parameters
        ----------
        num_queries : int
            How many are looked for.
        top : int
            How many hits of each are compared, besides the descriptor itself.
        seed : int
            Of the choice.

        Raises
        ------
        SourceError
            If there is no dataset, or nothing in it.
        """
        _check_top(top)
        rows = len(self)
        if not rows:
            raise SourceError(f"{self.name} is empty: expected descriptors to look for", source=self.name)
        chosen = np.sort(np.random.default_rng(seed).choice(rows, min(num_queries, rows), replace=False))
        queries = self._vectors_at(chosen)
        began = self._clock.now_ns()
        scores = np.full((len(queries), top + 1), -np.inf, np.float32)
        for part in self._parts(["vector"], None):
            _, found = best(_rows_of(part.column("vector"), NUM_FEATURES), queries, top + 1)
            scores = -np.sort(-np.concatenate([scores, found], axis=1), axis=1)[:, : top + 1]
        exact_ns, began = self._clock.now_ns() - began, self._clock.now_ns()
        hits = [self._near(query, top + 1) for query in queries]
        own_ns = self._clock.now_ns() - began
        wanted = min(top + 1, rows)
        right = sum(
            min(wanted, sum(hit.score >= float(line[wanted - 1]) - _SAME for hit in found)) - 1
            for found, line in zip(hits, scores, strict=True)
        )
        share = right / max(1, (wanted - 1) * len(queries))
        each = 1e-9 / len(queries)
        return Recall(max(0.0, share), top, len(queries), each * exact_ns, each * own_ns)

    def find_damaged(self) -> list[str]:
        """Read every descriptor whole, and return which are no longer what was written; see `hyperframes.index.find_damaged`.

        Raises
        ------
        SourceError
            If there is no dataset, or files of it are so damaged that they cannot be read.
        """
        columns = [*schema().names, "vector"]
        return [told for part in self._parts(columns, None) for told in find_damaged(part)]

    def _near(self, query: Array, top: int) -> list[Hit]:
        if self._is_large():
            return _hits(*self._ask_lancedb("vector", query, top, None))
        memory = self._in_memory()
        rows, scores = best(memory.vectors, query[None], top)
        return _hits(memory.answers.take(rows[0]), scores[0])

    def _vectors_at(self, chosen: Array) -> Array:
        """Return the vectors at some positions, ascending, of a pass over all."""
        found, first = [], 0
        for part in self._parts(["vector"], None):
            inside = chosen[(chosen >= first) & (chosen < first + len(part))] - first
            found.append(_rows_of(part.column("vector").take(inside), NUM_FEATURES))
            first += len(part)
        return np.concatenate(found)

    # Ways to ask ------------------------------------------------------------------------------------------------------

    def _around(self, like: str | Position) -> Stretch:
        """Return what is known around a position; what is not of a described source is described now."""
        at = Position.parse(like) if isinstance(like, str) else like
        if Path(at.source).is_file() and not self.count(f"source = {quoted(at.source)}"):
            return look_around(at, self._models(None))
        held = self.descriptor_at(at)
        seconds = at.seconds
        if seconds is None:
            share = (at.frame - held.core[0]) / max(1, held.core[1] - held.core[0])  # type: ignore[operator]  # one of them is given
            seconds = held.seconds[0] + share * (held.seconds[1] - held.seconds[0])
        same = {"content_hash": held.content_hash, "parameters": held.parameters, "stream": held.stream}
        same["source"] = held.source
        terms = [f"{name} = {quoted(value)}" for name, value in same.items()]
        terms += [f"start_seconds < {seconds + KNOWN_SECONDS}", f"stop_seconds > {seconds - KNOWN_SECONDS}"]
        near = self.rows(" and ".join(terms), columns=["start_seconds", "looks"]).sort_by("start_seconds")
        return Stretch(held, Looks.joined(looks_from(near.column("looks"))), seconds)

    def _query(self, like: Any) -> Array:
        if isinstance(like, Descriptor):
            self._check_models([like], None)
        return like.semantic_features if isinstance(like, Descriptor) else np.asarray(like)

    def _search_text(self, encoder: ImageEncoder, text: str, top: int, where: str | None) -> list[Hit]:
        self._check_encoder(encoder)
        query = np.asarray(encoder.encode([text]), np.float32)
        if self._is_large():
            return _hits(*self._ask_lancedb("text_vector", query[0], top, where))
        memory = self._in_memory()
        texts = self._texts(memory)
        allowed = self._allowed(memory, where)
        seen: Array = np.asarray(texts.any(axis=1))
        if allowed is not None:
            seen = seen & allowed
        rows, scores = best(texts, query, top, seen)
        return _hits(memory.answers.take(rows[0]), scores[0])

    def _search_image(self, encoder: Any, image: Any, top: int, where: str | None) -> list[Hit]:
        """Compare what both have: the valid parts of features, and text vectors."""
        known = self._known_text_models()
        looked = look_at(image, encoder if known else None, self._models(None))
        queries = {
            "vector": comparable(_checked(looked.semantic_features[None]))[0] * np.sqrt(sum(looked.feature_parts))
        }
        if looked.text_vector is not None and looked.text_model in known:
            queries["text_vector"] = looked.text_vector.astype(np.float32)
        if not self._is_large():
            memory = self._in_memory()
            scores = self._image_scores(queries, memory.vectors, memory.parts, lambda: self._texts(memory), looked)
            allowed = self._allowed(memory, where)
            if allowed is not None:
                scores = np.where(allowed, scores, -np.inf)
            order = np.argsort(-scores, kind="stable")[: min(top, int(np.isfinite(scores).sum()))]
            return _hits(memory.answers.take(order), scores[order])
        near = [self._ask_lancedb(name, _unit(q), _CANDIDATES * top, where)[0] for name, q in queries.items()]
        ids = dict.fromkeys(i for table in near for i in table.column("descriptor_id").to_pylist())
        rows = self._by_ids(ids, [*ANSWER, "vector", "feature_parts", "text_vector"])
        parts = _counted(rows.column("feature_parts"))
        scores = self._image_scores(
            queries, _rows_of(rows.column("vector"), NUM_FEATURES), parts, lambda: _text_rows(rows), looked
        )
        order = np.argsort(-scores, kind="stable")[:top]
        return _hits(rows.select(ANSWER).take(order), scores[order])

    @staticmethod
    def _image_scores(
        queries: Mapping[str, Array], vectors: Array, parts: Array, texts: Any, looked: Descriptor
    ) -> Array:
        """Return the mean cosine of the picture's parts and of what is seen in it, (n,) float32."""
        count = sum(looked.feature_parts)
        scores = (vectors @ queries["vector"]) * np.sqrt(parts) / count
        if "text_vector" in queries:
            seen = texts()
            told = seen.any(axis=1)
            scores = np.where(told, (count * scores + seen @ queries["text_vector"]) / (count + 1), scores)
        return np.asarray(scores, np.float32)

    def _search_task(self, features: Array, task: str, top: int, where: str | None) -> list[Hit]:
        TASKS.project(features, task)  # says so where it is only guessed
        projection = TASKS.projection(task)
        query = np.append(features @ projection.matrix, np.float32(1)).astype(np.float32)
        if self._is_large():
            table, products, variance = self._scan_task(query, projection, top, where)
        else:
            memory = self._in_memory()
            projected = self._projected(memory, projection)
            rows, found = best(projected.rows, query[None], top, self._allowed(memory, where))
            table, products, variance = memory.answers.take(rows[0]), found[0], projected.variance
        squared = np.maximum(float(query[:-1] @ query[:-1]) - 2 * products.astype(np.float64), 0)
        return _hits(table, 1 - squared / (2 * max(variance, 1e-12)))

    def _scan_task(self, query: Array, projection: Projection, top: int, where: str | None) -> tuple[Any, Array, float]:
        """Look at every row of a large dataset, some thousands at a time: there is no index of what a task projects."""
        import pyarrow as pa

        tables, products, total, squares, count = [], [], np.zeros(256), 0.0, 0
        for part in self._parts([*ANSWER, "semantic_features"], where):
            rows = _augmented(_rows_of(part.column("semantic_features"), NUM_FEATURES) @ projection.matrix)
            total, squares, count = (
                total + rows[:, :-1].sum(axis=0),
                squares - 2 * float(rows[:, -1].sum()),
                count + len(rows),
            )
            near, scores = best(rows, query[None], top)
            tables.append(part.select(ANSWER).take(near[0]))
            products.append(scores[0])
        if not tables:
            return self.rows(columns=ANSWER, limit=0), np.zeros(0), 1.0
        joined, scores = pa.concat_tables(tables), np.concatenate(products)
        order = np.argsort(-scores, kind="stable")[:top]
        return joined.take(order), scores[order], squares / count - float((total / count) @ (total / count))

    # What is held -----------------------------------------------------------------------------------------------------

    def _is_large(self) -> bool:
        return int(self._need().count_rows()) > IN_MEMORY_ROWS

    def _in_memory(self) -> _Memory:
        """Return the vectors of the newest version, read again where it is another one."""
        version = self.version
        if self._memory is None or self._memory.version != version:
            table = self.rows(columns=[*ANSWER, "vector", "feature_parts"])
            vectors = self._undamaged(_rows_of(table.column("vector"), NUM_FEATURES))
            answers = table.select(ANSWER).combine_chunks()
            self._memory = _Memory(version, answers, vectors, _counted(table.column("feature_parts")))
        return self._memory

    def _undamaged(self, vectors: Array) -> Array:
        """Return vectors if they are what is ever written: of unit length, or zero."""
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", vectors, vectors)
            damaged = int(np.count_nonzero(~((squares == 0) | (np.abs(squares - 1) < _LENGTH_ERROR))))
        if damaged:
            raise SourceError(
                f"{self.name} is damaged: {damaged} of its {len(vectors)} vectors are not of unit length",
                source=self.name,
                hint=f"'hyperframes index {self.name} --verify' tells which.",
            )
        return vectors

    def _texts(self, memory: _Memory) -> Array:
        if memory.texts is None:
            memory.texts = _text_rows(self._in_order(memory, ["text_vector"]))
        return memory.texts

    def _videos(self, features: Array | None, where: str | None) -> Videos:
        """Return what copies are looked for in: all spans where they are few, else those with the most alike features."""
        if len(self) > _TRACKED_ROWS:
            if features is None:
                raise PipelineError(
                    f"{self.name} holds {len(self)} spans: expected the features of one, to choose those to compare by",
                    expected=_TRACKED_ROWS,
                    got=len(self),
                )
            near = self.search_many(features[None], top=_NEAR, where=where)[0]
            return Videos.of(self._by_ids([hit.descriptor_id for hit in near], [*Videos.COLUMNS]))
        if where is not None:
            return Videos.of(self.rows(where, columns=Videos.COLUMNS))
        memory = self._in_memory()
        if memory.videos is None:
            memory.videos = Videos.of(self._in_order(memory, [*Videos.COLUMNS]))
        return memory.videos

    def _projected(self, memory: _Memory, projection: Projection) -> _Projected:
        key = f"{projection.task}\n{projection.version}"
        if key not in memory.tasks:
            features = _rows_of(self._in_order(memory, ["semantic_features"]).column(0), NUM_FEATURES)
            rows = _augmented(features @ projection.matrix)
            variance = float(rows[:, :-1].var(axis=0, dtype=np.float64).sum())
            while len(memory.tasks) >= _MOST_TASKS:
                memory.tasks.pop(next(iter(memory.tasks)))
            memory.tasks[key] = _Projected(rows, variance)
        return memory.tasks[key]

    def _in_order(self, memory: _Memory, columns: list[str]) -> Any:
        """Return further columns of the version in memory, in its order."""
        table = self.rows(columns=["descriptor_id", *(name for name in columns if name != "descriptor_id")])
        if not table.column("descriptor_id").equals(memory.answers.column("descriptor_id")):
            order = {name: k for k, name in enumerate(table.column("descriptor_id").to_pylist())}
            wanted = memory.answers.column("descriptor_id").to_pylist()
            if not order.keys() >= set(wanted):
                raise SourceError(
                    f"{self.name} was changed while it was searched", source=self.name, hint="Search again."
                )
            table = table.take([order[name] for name in wanted])
        return table.select(columns)

    def _allowed(self, memory: _Memory, where: str | None) -> Array | None:
        if where is None:
            return None
        import pyarrow.compute as pc

        ids = self.rows(where, columns=["descriptor_id"]).column("descriptor_id")
        allowed: Array = pc.is_in(memory.answers.column("descriptor_id"), value_set=ids).to_numpy()
        return allowed

    def _known_text_models(self) -> set[str]:
        version = self.version
        if self._text_models is None or self._text_models[0] != version:
            names = set(self.rows(columns=["text_model"]).column("text_model").unique().to_pylist())
            self._text_models = version, names - {""}
        return self._text_models[1]

    def _check_encoder(self, encoder: ImageEncoder) -> None:
        known = self._known_text_models()
        if not known:
            raise FrameError(
                f"no descriptor in {self.name} has a text vector: expected some made with a sentence encoder",
                expected=encoder.model_id,
                hint="Put the models into a folder of HYPERFRAMES_MODELS and describe the sources again.",
            )
        if encoder.model_id not in known:
            raise FrameError(
                f"text vectors in {self.name} were made with {', '.join(sorted(known))}: got a question by "
                f"{encoder.model_id}; results of different models cannot be compared",
                expected=sorted(known),
                got=encoder.model_id,
                hint="Name the encoder they were made with (--encoder NAME), or describe the sources again.",
            )

    # Asking LanceDB ---------------------------------------------------------------------------------------------------

    def _ask_lancedb(self, column: str, query: Array, top: int, where: str | None) -> tuple[Any, Array]:
        """Return the nearest rows and their scores: by the vector index, what it has not seen yet by a scan."""
        return self._ask_many(column, query[None], top, where)[0]

    def _ask_many(self, column: str, queries: Array, top: int, where: str | None) -> list[tuple[Any, Array]]:
        """Return the nearest rows and their scores of each of several queries."""
        asked = self._need().search(queries[0] if len(queries) == 1 else list(queries), vector_column_name=column)
        asked = asked.distance_type("cosine").limit(top).nprobes(NUM_PROBES).refine_factor(REFINED)
        condition = (
            where if column == "vector" else " and ".join(filter(None, ("text_model != ''", where and f"({where})")))
        )
        asked = asked if condition is None else asked.where(condition, prefilter=True)
        with self._reading(where):
            found = asked.select([*ANSWER, "_distance"]).to_arrow()
        if len(queries) == 1:
            return [(found, 1 - found.column("_distance").to_numpy())]
        number, distances = (found.column(name).to_numpy() for name in ("query_index", "_distance"))
        order = np.lexsort((distances, number))  # of equal ones the order stays
        edges = np.searchsorted(number[order], np.arange(len(queries) + 1))
        parts = [order[first:stop] for first, stop in itertools.pairwise(edges)]
        return [(found.take(rows), 1 - distances[rows]) for rows in parts]

    def _by_ids(self, ids: Any, columns: list[str]) -> Any:
        names = ", ".join(map(quoted, ids))
        return self.rows(f"descriptor_id in ({names})" if names else "descriptor_id = ''", columns=columns)

    def _parts(self, columns: list[str], where: str | None) -> Iterator[Any]:
        """Yield the rows that meet the condition, some thousands at a time."""
        import pyarrow as pa

        asked = self._need().search()
        asked = asked if where is None else asked.where(where)
        with self._reading(where):
            for part in asked.select(columns).to_batches(_AT_ONCE):
                yield pa.Table.from_batches([part])


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
    ids, *columns = (table.column(name).to_pylist() for name in ANSWER)
    return [Hit(*row) for row in zip(*columns, scores.astype(np.float64).tolist(), ids, strict=True)]


def _is_stale(stats: Any) -> bool:
    """Return whether an index is not there, knows less than half, or is of another kind."""
    return stats is None or stats.index_type != _INDEX_KIND or stats.num_unindexed_rows > stats.num_indexed_rows


def _index_name(column: str) -> str:
    return f"{column}_idx"


def _check_question(like: Any, image: Any, text: str | None, task: str | None) -> None:
    given = [name for name, value in (("like", like), ("image", image), ("text", text)) if value is not None]
    if len(given) != 1:
        raise PipelineError(
            f"what is looked for: expected one of like, image and text, got {' and '.join(given) or 'none'}",
            expected="one of like, image and text",
            got=given,
        )
    if task is not None and like is None:
        raise PipelineError(
            f"a task compares features: expected it together with like, got it with {given[0]}",
            expected="like",
            got=given[0],
            hint="Find a span by text or image first, then search for what is like it for the task.",
        )


def _check_top(top: int) -> None:
    if top < 1:
        raise PipelineError(f"top: expected 1 or more, got {top}", expected="1 or more", got=top)


def _unit(vector: Array) -> Array:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def _augmented(projected: Array) -> Array:
    """Return (n, 257): the scalar product with (query, 1) is half the query's squared length less half the distance's."""
    halves = -0.5 * (projected.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    return np.concatenate([projected, halves], axis=1).astype(np.float32)


def _rows_of(column: Any, width: int) -> Array:
    """Return a column of fixed-size lists without nulls as (n, width), C-contiguous."""
    rows: Array = column.combine_chunks().flatten().to_numpy().reshape(-1, width)
    return rows


def _text_rows(table: Any) -> Array:
    """Return the text vectors, (n, 384) float32, zero where there is none."""
    column = table.column("text_vector").combine_chunks()
    found = np.zeros((len(column), 384), np.float32)
    found[column.is_valid().to_numpy(zero_copy_only=False)] = column.flatten().to_numpy().reshape(-1, 384)
    return found


def _counted(column: Any) -> Array:
    """Return how many parts are valid, (n,) float32."""
    flags = column.combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, 4)
    return np.asarray(flags.sum(axis=1), np.float32)
