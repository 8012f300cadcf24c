"""Descriptors in a LanceDB dataset: added, replaced, deleted, filtered; every change is one new version, whole or not there."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.clock import Clock, SystemClock
from hyperframes.errors import FrameError, HyperframesError, MissingExtraError, PipelineError, SinkError, SourceError
from hyperframes.errors import without_credentials as shown
from hyperframes.index.vectors import comparable
from hyperframes.index.where import check_where, excerpt, quoted
from hyperframes.semantic import Descriptor, schema, to_table

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["LAYOUT_KEY", "Added", "Store", "Version", "reason_of"]

_SUFFIX: Final = ".lance"
LAYOUT_KEY, _LAYOUT = b"hyperframes.index", b"1"
"""Raised when a column of the dataset besides those of descriptors changes its meaning."""
_SCHEMA_KEY: Final = b"hyperframes.descriptor"
_KEY_MARK: Final = "lance-schema:unenforced-primary-key"
_COMMIT_ROWS: Final = 4096
_COMMIT_NS: Final = 30_000_000_000


class Added(NamedTuple):
    """What became of the descriptors that were given."""

    added: int
    """Written."""
    unchanged: int
    """Left out, as they were there: same content, span, parameters and models."""
    deleted: int = 0
    """Of the same sources, taken out by `Store.replace`."""


class Version(NamedTuple):
    """One state of a dataset; all of them can be opened until `Store.compact` takes old ones away."""

    number: int
    at: datetime.datetime
    num_descriptors: int


class Store:
    """A dataset of descriptors in a local folder or an object store.

    Parameters
    ----------
    location : path or URL
        Ends in ``.lance``; made by the first `add` where nothing stands there. ``s3://``, ``gs://`` and ``az://`` too.
    version : int, optional
        Open this version, to read only; by default the newest, also those that others make while this is open.
    storage_options : mapping, optional
        For an object store: keys, region, endpoint, as LanceDB has them.
    clock : Clock, optional
        Paces the commits of a long `add`.

    Raises
    ------
    SourceError
        If the location has another suffix, is no dataset of descriptors, is of another schema version, or there is no
        such version.
    MissingExtraError
        If LanceDB is not installed.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._location = os.fspath(location).rstrip("/").removeprefix("file://")
        self.name = shown(self._location)
        """Path or URL, without credentials."""
        self._clock = clock or SystemClock()
        self._pinned = version
        folder, name = _split(self._location, self.name)
        try:
            import lancedb
        except ImportError as error:
            raise MissingExtraError("the index of descriptors", "index") from error
        self._folder, self._table_name = folder, name
        self._connect: Callable[[], Any] = partial(lancedb.connect, folder, storage_options=dict(storage_options or {}))
        self._database: Any = None
        self._table: Any = None
        self._known_models: tuple[int, dict[str, str]] | None = None
        if version is not None and self._find() is None:
            raise self._missing()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self)} descriptors)"

    def __len__(self) -> int:
        table = self._find()
        return 0 if table is None else int(table.count_rows())

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of the version that is read; 0 before the first `add`."""
        table = self._find()
        return 0 if table is None else int(table.version)

    def versions(self) -> list[Version]:
        """Return all versions that can be opened, oldest first."""
        table = self._find()
        if table is None:
            return []
        with self._reading():
            entries = table.list_versions()
        return [Version(v["version"], v["timestamp"], int(v["metadata"].get("total_rows", 0))) for v in entries]

    def count(self, where: str | None = None) -> int:
        """Return how many descriptors meet the condition `where`; all by default.

        Raises
        ------
        PipelineError
            If `where` is not a plain condition over columns of descriptors.
        """
        if where is None:
            return len(self)
        table, where = self._find(), check_where(where)
        if table is None:
            return 0
        with self._reading(where):
            return int(table.count_rows(where))

    def holds(self, content_hash: str, parameters: str, *, stream: str | None = None) -> bool:
        """Return whether the descriptors of a source's content, made with these parameters, are there: then all are.

        What `add` is given of one source in a row goes into one commit.
        """
        where = f"content_hash = {quoted(content_hash)} and parameters = {quoted(parameters)}"
        return self.count(where if stream is None else f"{where} and stream = {quoted(stream)}") > 0

    def descriptors(self, where: str | None = None, *, limit: int | None = None) -> list[Descriptor]:
        """Return the descriptors that meet the condition `where`, in no particular order; all by default.

        Raises
        ------
        PipelineError
            If `where` is not a plain condition over columns of descriptors.
        SourceError
            If there is no dataset yet, or it cannot be read.
        """
        return Descriptor.from_arrow(self.rows(where, limit=limit))

    def rows(self, where: str | None = None, *, columns: Sequence[str] | None = None, limit: int | None = None) -> Any:
        """Return a pyarrow Table of the rows that meet the condition `where`; columns as `semantic.schema` has them.

        Raises
        ------
        PipelineError
            If `where` is not a plain condition over columns of descriptors.
        SourceError
            If there is no dataset yet, or it cannot be read.
        """
        table = self._need()
        checked = None if where is None else check_where(where)
        query = table.search()
        query = query if checked is None else query.where(checked)
        names = [*schema().names] if columns is None else [*columns]
        with self._reading(checked):
            return query.select(names).limit(limit).to_arrow()

    # Changing ---------------------------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Refuse a dataset that `add` could not write: before the work, not after it.

        Raises
        ------
        SourceError
            If something else stands there, or it cannot be read.
        SinkError
            If there is no such folder, or it may not be written.
        """
        table = self._writable()
        if "://" in self._location:
            return
        self._check_folder()
        place = self._folder if table is None else self._location
        if not os.access(place, os.W_OK):
            reason = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
            raise SinkError(
                f"cannot write {self.name}: {os.strerror(reason).lower()}",
                sink=self.name,
                hint="Give a place that may be written with --to.",
            )

    def add(self, descriptors: Descriptor | Iterable[Descriptor]) -> Added:
        """Write the descriptors that are not there yet.

        They are taken as they come; those of one source that follow each other are committed together, so what was
        committed before an interruption is whole, and giving the same ones again goes on from there.

        Raises
        ------
        FrameError
            If one was made with another version of a model than those in the dataset: they cannot be compared.
        SinkError
            If the dataset cannot be written; it is then as it was after the last commit.
        """
        added = given = 0
        for several in self._in_commits(descriptors):
            given += len(several)
            added += self._commit(several, None).added
        return Added(added, given - added)

    def replace(self, descriptors: Descriptor | Iterable[Descriptor]) -> Added:
        """Write the descriptors and delete all others of the same sources, in one commit.

        Raises
        ------
        FrameError
            If one was made with another version of a model than those of the other sources.
        SinkError
            If the dataset cannot be written; it is then as it was.
        """
        several = [descriptors] if isinstance(descriptors, Descriptor) else list(descriptors)
        if not several:
            return Added(0, 0)
        sources = ", ".join(quoted(source) for source in sorted({d.source for d in several}))
        return self._commit(several, f"source in ({sources})")

    def update(self, descriptors: Descriptor | Iterable[Descriptor]) -> Added:
        """Write the descriptors that are not there yet, and delete those that were made of earlier content of their sources.

        Each source is one commit.

        Raises
        ------
        FrameError
            If one was made with another version of a model than those in the dataset: they cannot be compared.
        SinkError
            If the dataset cannot be written; it is then as it was after the last commit.
        """
        done = Added(0, 0)
        given = [descriptors] if isinstance(descriptors, Descriptor) else descriptors
        for (source, content), group in itertools.groupby(given, key=lambda d: (d.source, d.content_hash)):
            earlier = f"source = {quoted(source)} and content_hash != {quoted(content)}"
            told = self._commit([*group], earlier if self.count(earlier) else None)
            done = Added(*(a + b for a, b in zip(done, told, strict=True)))
        return done

    def delete(self, where: str) -> int:
        """Delete the descriptors that meet the condition `where`; return how many.

        Raises
        ------
        PipelineError
            If `where` is not a plain condition over columns of descriptors.
        SinkError
            If the dataset cannot be written.
        """
        table, where = self._writable(), check_where(where)
        if table is None:
            return 0
        with self._writing():
            return int(table.delete(where).num_deleted_rows)

    def compact(self, *, keep: datetime.timedelta | None = None) -> None:
        """Join small files and bring indexes up to date; take away versions older than `keep`, by default seven days.

        Raises
        ------
        SinkError
            If the dataset cannot be written.
        """
        table = self._writable()
        if table is not None:
            with self._writing():
                table.optimize(cleanup_older_than=keep)

    # How --------------------------------------------------------------------------------------------------------------

    def _find(self) -> Any:
        """Return LanceDB's table in the version that is read; None where there is no dataset."""
        if self._table is not None:
            if self._pinned is None:
                with self._reading():
                    self._table.checkout_latest()
            return self._table
        if "://" not in self._location and not Path(self._location).is_dir():
            if Path(self._location).exists():
                raise self._foreign("it is a file")
            return None
        with self._reading():
            self._database = self._database or self._connect()
            table = self._opened()
            if table is None:
                return None
            self._check_schema(table.schema)
            if self._pinned is not None:
                self._check_out(table, self._pinned)
        self._table = table
        return table

    def _opened(self) -> Any:
        try:
            return self._database.open_table(self._table_name)
        except (OSError, RuntimeError, ValueError) as error:
            if "not found" not in str(error):
                raise
            if "://" not in self._location and not _is_unmade(Path(self._location)):
                raise self._foreign("it holds no LanceDB table") from error
            return None

    def _check_schema(self, found: Any) -> None:
        versions = found.metadata or {}
        if _SCHEMA_KEY not in versions or LAYOUT_KEY not in versions:
            raise self._foreign("its table is another one")
        for key, expected in ((_SCHEMA_KEY, schema().metadata[_SCHEMA_KEY]), (LAYOUT_KEY, _LAYOUT)):
            if versions[key] != expected:
                raise SourceError(
                    f"{self.name} is of version {versions[key].decode()} of {key.decode()}: "
                    f"expected {expected.decode()}",
                    source=self.name,
                    hint="Describe the sources again into another dataset.",
                )

    def _check_out(self, table: Any, version: int) -> None:
        known = [v["version"] for v in table.list_versions()]
        if version not in known:
            raise SourceError(
                f"{self.name} has no version {version}: expected one of {known[0]} to {known[-1]}", source=self.name
            )
        table.checkout(version)

    def _need(self) -> Any:
        table = self._find()
        if table is None:
            raise self._missing()
        return table

    def _missing(self) -> SourceError:
        return SourceError(
            f"there is no dataset at {self.name}",
            source=self.name,
            hint="Make it with 'hyperframes describe SOURCE --to DATASET'.",
        )

    def _foreign(self, why: str) -> SourceError:
        return SourceError(
            f"{self.name} is no dataset of descriptors: {why}", source=self.name, hint="Give another name or remove it."
        )

    def _writable(self) -> Any:
        if self._pinned is not None:
            raise PipelineError(
                f"{self.name} was opened at version {self._pinned}, which cannot change: expected no version",
                hint="Open it without a version to change it.",
            )
        return self._find()

    def _made(self) -> Any:
        """Return LanceDB's table, making it where there is none."""
        table = self._writable()
        if table is not None:
            return table
        self._check_folder()
        with self._writing(), _alone_in(self._folder):
            self._database = self._database or self._connect()
            # another process may have made it meanwhile
            table = self._database.create_table(self._table_name, schema=_stored_schema(), exist_ok=True)
        self._table = table
        return table

    def _check_folder(self) -> None:
        if "://" not in self._location and not Path(self._folder).is_dir():
            raise SinkError(
                f"cannot write {self.name}: {self._folder!r} does not exist",
                sink=self.name,
                hint=f"Make it first: mkdir -p {self._folder}",
            )

    def _in_commits(self, descriptors: Descriptor | Iterable[Descriptor]) -> Iterator[list[Descriptor]]:
        """Yield whole sources, several at a time while they are short and come quickly."""
        waiting: list[Descriptor] = []
        since = self._clock.now_ns()
        given = [descriptors] if isinstance(descriptors, Descriptor) else descriptors
        for _, group in itertools.groupby(given, key=lambda d: (d.content_hash, d.stream, d.parameters)):
            waiting += group
            if len(waiting) >= _COMMIT_ROWS or self._clock.now_ns() - since >= _COMMIT_NS:
                yield waiting
                waiting, since = [], self._clock.now_ns()
        if waiting:
            yield waiting

    def _commit(self, several: list[Descriptor], replaced: str | None) -> Added:
        unique = list({d.descriptor_id: d for d in several}.values())
        models = self._check_models(unique, replaced)
        table = self._made()
        before = int(table.version)
        with self._writing():
            merge = table.merge_insert("descriptor_id").when_not_matched_insert_all()
            if replaced is not None:
                merge = merge.when_not_matched_by_source_delete(replaced)
            # descriptors without a text have no vector of it: kept as they are, not a mistake
            done = merge.execute(_stored(unique), on_bad_vectors="null")
        if int(table.version) == before + 1:  # nobody else has changed it meanwhile
            self._known_models = before + 1, models
        added = int(done.num_inserted_rows)
        return Added(added, len(several) - added, int(done.num_deleted_rows))

    def _check_models(self, several: Sequence[Descriptor], replaced: str | None) -> dict[str, str]:
        """Refuse what was made with another version of a model than what stays or comes with it; return all that took part."""
        known = self._models(None if replaced is None else f"not ({replaced})")
        for descriptor in several:
            for model, version in _models_of(descriptor).items():
                if known.setdefault(model, version) != version:
                    raise FrameError(
                        f"{descriptor.source} was described with {model} {version!r}: expected {known[model]!r}, "
                        f"as the rest of {self.name}; results of different models cannot be compared",
                        expected=known[model],
                        got=version,
                        hint="Describe everything again into another dataset.",
                    )
        return known

    def _models(self, where: str | None) -> dict[str, str]:
        """Return name and version of every model that took part in what is there."""
        table = self._find()
        if table is None:
            return {}
        version = int(table.version)
        if where is None and self._known_models is not None and self._known_models[0] == version:
            return dict(self._known_models[1])
        sets = self.rows(where, columns=["model_versions"]).column("model_versions").unique().to_pylist()
        found = {name: version for text in sets for name, version in json.loads(text).items()}
        if where is None:
            self._known_models = version, dict(found)
        return found

    @contextmanager
    def _reading(self, where: str | None = None) -> Iterator[None]:
        try:
            yield
        except HyperframesError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            if where is not None and isinstance(error, ValueError):
                raise PipelineError(f"where {excerpt(where)!r} makes no sense: {reason_of(error)}") from error
            raise SourceError(
                f"cannot read {self.name}: {reason_of(error)}",
                source=self.name,
                hint="If files of it are damaged or gone: describe the sources again into another dataset.",
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except HyperframesError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise SinkError(
                f"cannot write {self.name}: {reason_of(error)}",
                sink=self.name,
                hint="Nothing of this change was kept; what was there before is unharmed.",
            ) from error


def _split(location: str, name: str) -> tuple[str, str]:
    """Return the folder and LanceDB's name of the table in it."""
    folder, _, table = location.rpartition("/")
    if not table.endswith(_SUFFIX) or table == _SUFFIX:
        raise SourceError(
            f"a dataset of descriptors is a folder ending in {_SUFFIX}: got {name!r}",
            source=name,
            hint=f"For example: {table.partition('.')[0] or 'library'}{_SUFFIX}",
        )
    if not re.fullmatch(r"[\w.-]+", table, re.ASCII):
        plain = re.sub(r"[^\w.-]+", "_", table, flags=re.ASCII)
        raise SourceError(
            f"name of a dataset of descriptors: expected letters a to z, digits, '_', '-' and '.', got {table!r}",
            source=name,
            hint=f"For example: {plain}; the folders it stands in may have any name.",
        )
    return folder or ("/" if location.startswith("/") else "."), table.removesuffix(_SUFFIX)


def _is_unmade(folder: Path) -> bool:
    """Return whether a folder holds nothing but what is left of a dataset whose making was interrupted."""
    begun = {"_transactions", "_versions"}
    return all(p.is_dir() or (p.parent.name in begun and p.suffix != ".manifest") for p in folder.rglob("*"))


@contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Wait until no other process makes a dataset in a local folder: of two that make the same one, one could undo the other."""
    if "://" in folder or os.name != "posix":
        yield
        return
    import fcntl

    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network folder without locks: as it is on object stores
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _models_of(descriptor: Descriptor) -> dict[str, str]:
    text = {"the text encoder": descriptor.text_model} if descriptor.text_model else {}
    return {**descriptor.models, **text}


def _stored_schema() -> Any:
    """Return what the dataset holds: the descriptor, what is compared in searches, and what took part."""
    import pyarrow as pa

    plain = schema()
    # Of two writers at once that add the same, LanceDB lets one try again when it knows what tells rows apart.
    key = pa.field("descriptor_id", pa.string(), nullable=False, metadata={_KEY_MARK: "true"})
    plain = plain.set(plain.get_field_index("descriptor_id"), key)
    further = [pa.field("vector", pa.list_(pa.float32(), 512)), pa.field("model_versions", pa.string())]
    return pa.schema([*plain, *further], {**plain.metadata, LAYOUT_KEY: _LAYOUT})


def _stored(several: Sequence[Descriptor]) -> Any:
    import pyarrow as pa

    vectors = comparable(np.stack([d.semantic_features for d in several]))
    texts: dict[tuple[Any, ...], str] = {}
    models = []
    for d in several:
        key = (*d.models.items(), d.text_model)
        if key not in texts:
            texts[key] = json.dumps(_models_of(d), sort_keys=True)
        models.append(texts[key])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = to_table(several)
    return pa.Table.from_arrays([*table.columns, flat, pa.array(models)], schema=_stored_schema())


def reason_of(error: BaseException) -> str:
    """Return what the system said, out of what LanceDB made of it."""
    text = str(error)
    number = re.search(r"os error (\d+)", text)
    if number:
        return os.strerror(int(number[1])).lower()
    lines = text.strip().splitlines() or [type(error).__name__]
    plain = re.sub(r"(lance error: |LanceError\(\w+\): )", "", lines[0])
    return re.sub(r",? ?/\S+\.rs:\d+:\d+.*", "", plain)[:300]
