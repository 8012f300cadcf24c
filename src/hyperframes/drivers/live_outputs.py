"""Results of a live run in files and to brokers: rows of all streams together, pictures of each stream by itself.

Everything goes through the sinks that offline runs use, so that an output stands under its name only when it is whole. An
output that fails is given up and told; the run and the other outputs go on.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hyperframes.errors import HyperframesError, PipelineError, SinkError, without_credentials
from hyperframes.frames import Clip, Field, FrameSpec, Records, RecordSpec, Spec
from hyperframes.operators.convert import Convert, choose_format
from hyperframes.sinks import NullSink, Sink, Target, open_sink
from hyperframes.sinks.checks import opened
from hyperframes.sinks.images import ImagesSink
from hyperframes.sinks.rows import RowLayout, RowsFile, whole_lines
from hyperframes.sinks.staging import StagedFile, refuse_filled, refuse_unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hyperframes.drivers.live_results import LiveResult
    from hyperframes.frames import Array
    from hyperframes.operators.framewise import Kernel

__all__ = ["LiveOutputs", "plain_value", "row_of", "tagged"]

Outputs = Callable[[], "list[dict[str, tuple[str, Spec]]]"]
"""What results are made of, see `LiveRuntime.outputs`."""

ROWS_TOGETHER, PICTURES_TOGETHER = 512, 8
"""Handed to a sink at once."""
TAG_BYTES = 120
"""Of a stream's name in that of a file: file systems take 255 in all."""
WAIT_SECONDS = 1.0
"""For a result that is being written: who gave up waiting for the run may find one that its reader does not take."""
TICK = Fraction(1, 90_000)
"""Of times in videos, which begin with the first picture."""
_NANO = Fraction(1, 1_000_000_000)
_ABOUT = (
    Field("stream", np.dtype("U96")),
    Field("epoch", np.dtype(np.int64)),
    Field("clock", np.dtype("U8")),
    Field("hyperframe", np.dtype("U96")),
)
"""Columns that every row has besides ``frame`` (the frame's id) and ``seconds`` (its Unix time)."""
_NUMBERED = re.compile(r"%0?\d*d")


class _Writer(Protocol):
    name: str
    continues: bool
    """Whether a later run can go on with what a killed one wrote."""

    def open(self) -> None: ...
    def add(self, result: LiveResult) -> None: ...
    def settle(self) -> None: ...
    def finish(self) -> list[str]: ...
    def abort(self) -> None: ...


class LiveOutputs:
    """Writes results; give it to the run as `on_result`, then call `finish`. Lines go out after each hyperframe.

    Parameters
    ----------
    names : sequence of str
        ``-`` and ``.jsonl``: one line of JSON a frame. ``.parquet``, ``.csv``, ``mqtt://``, ``nats://``: one row or message
        a record, of all streams. Videos, folders of images and arrays: the pictures of one stream; with several streams, or
        when their size changes, the name gets the stream's and a number, such as ``out-door-2.mp4``.
    streams : collection of str
        Names of the streams that are known.
    on_failure : function, optional
        Told, once each, why an output was given up.
    pixels : bool
        Whether results bring their pictures; those of a cluster leave them where they were made.
    kept : bool
        Whether lines and rows of text (``.jsonl``, ``.csv``) stay as ``.NAME.part`` where the run does not come to its end:
        a journal says that they were delivered.
    resumed : bool
        Whether to go on with those that a killed run left.

    Attributes
    ----------
    failures : list of HyperframesError
        Why outputs were given up.
    reader_left : bool
        Whether nobody reads standard output any more.

    Raises
    ------
    SinkError
        If nothing writes to such a name, or it cannot be written there.
    PipelineError
        If two outputs have one name, or one needs pictures that do not come.
    """

    def __init__(
        self,
        names: Sequence[str],
        streams: Iterable[str],
        on_failure: Callable[[str], Any] | None = None,
        *,
        pixels: bool = True,
        kept: bool = False,
        resumed: bool = False,
    ) -> None:
        known = sorted(set(streams))
        self.kept, self.resumed = kept or resumed, resumed
        self.reader_left = False
        self._outputs: Outputs = list
        self._on_failure = on_failure
        self.failures: list[HyperframesError] = []
        self._writing = threading.Lock()
        writers = [_writer(name, self, known) for name in names]
        _check_places(names, writers)
        if not pixels and (needs := next((w for w in writers if isinstance(w, _Pictures)), None)):
            raise PipelineError(
                f"results of a cluster come without pixels: {needs.name} needs them",
                got=needs.name,
                hint="Write rows (.jsonl, .parquet, mqtt://, nats://), or run live on one machine.",
            )
        self._writers: list[_Writer] = []
        try:
            for writer in writers:
                writer.open()
                self._writers.append(writer)
        except BaseException:
            self.abort()
            raise

    def watch(self, outputs: Outputs) -> None:
        """Ask `outputs` what results are made of."""
        self._outputs = outputs

    def __call__(self, result: LiveResult) -> None:
        """Write one result; provisional ones are passed over, since the final one follows."""
        if not result.provisional:
            with self._writing:
                for writer in tuple(self._writers):
                    self._trying(writer, lambda writer=writer: writer.add(result))  # type: ignore[misc]

    def settle(self) -> None:
        """Hand over what was written for a hyperframe: lines to their readers and to the operating system."""
        with self._writing:
            for writer in tuple(self._writers):
                self._trying(writer, writer.settle)

    def finish(self) -> list[str]:
        """Finish all outputs and return their names; what comes later is passed over."""
        done: list[str] = []
        if not self._writing.acquire(timeout=WAIT_SECONDS):
            return done
        try:
            for writer in tuple(self._writers):
                self._trying(writer, lambda writer=writer: done.extend(writer.finish()))  # type: ignore[misc]
            self._writers.clear()
        finally:
            self._writing.release()
        return done

    def abort(self) -> None:
        """Give up what is not finished: nothing of it stays but what is kept."""
        while self._writers:
            self._writers.pop().abort()

    @property
    def writes(self) -> bool:
        """Whether there is an output that has not been given up."""
        return bool(self._writers)

    @property
    def not_continued(self) -> list[str]:
        """Names of files with which a later run cannot go on where this one is killed."""
        return [writer.name for writer in self._writers if not writer.continues]

    @property
    def made(self) -> bool:
        """Whether results have values: there are operators."""
        return any(self._outputs())

    def _trying(self, writer: _Writer, act: Callable[[], Any]) -> None:
        try:
            act()
        except BrokenPipeError:  # nobody reads standard output any more
            self._writers.remove(writer)
            self.reader_left = True
        except (HyperframesError, OSError) as error:
            self._writers.remove(writer)
            writer.abort()
            told = error if isinstance(error, HyperframesError) else SinkError(f"cannot write {writer.name}: {error}")
            self.failures.append(told)
            if self._on_failure is not None:
                self._on_failure(f"{told}; nothing more is written there")

    def find(self, value: Any, *, pictures: bool) -> tuple[str, str, Spec] | None:
        """Return name, kind and spec of the output in `value` that a sink of frames, or of rows, takes."""
        for outputs in self._outputs():
            for name, (kind, spec) in outputs.items():
                part = value[name] if len(outputs) > 1 else value
                if isinstance(spec, RecordSpec):
                    if not pictures:
                        return (name if len(outputs) > 1 else "", kind, spec)
                elif (pictures or max(map(len, spec.shapes)) < 2) and _fits(part, spec):
                    return (name if len(outputs) > 1 else "", kind, spec)
        return None


def tagged(name: str, tag: str) -> str:
    """Return the name of a file, folder or pattern of images with `tag` before its suffix.

    Examples
    --------
    >>> tagged("out.mp4", "-door"), tagged("shots/%06d.png", "-door")
    ('out-door.mp4', 'shots-door/%06d.png')
    """
    place = Path(name)
    if _NUMBERED.search(place.name):
        return str(place.parent.with_name(place.parent.name + tag) / place.name)
    return str(place.with_name(place.stem + tag + place.suffix))


def _writer(name: str, outputs: LiveOutputs, streams: Sequence[str]) -> _Writer:
    if name == "-":
        return _Printed()
    sink = open_sink(name)  # refuses early what cannot be written
    if name.endswith(".jsonl"):
        return _Lines(name, outputs)
    if isinstance(sink, NullSink) or not sink.takes_frames or sink.takes_records:
        return _Rows(sink, outputs)
    return _Pictures(name, outputs, streams)


def _check_places(names: Sequence[str], writers: Sequence[_Writer]) -> None:
    """Refuse two outputs that would be written to one file or folder, and what could not be written at all."""
    taken: dict[Path | str, str] = {}
    for name, writer in zip(names, writers, strict=True):
        for place in _places(name, writer):
            other = taken.setdefault(place, name)
            if other is not name or names.count(name) > 1:
                both = f"{other} and {name} are both {place}" if other != name else f"{name} was given twice"
                raise PipelineError(
                    f"two outputs are written to one place: {both}",
                    got=name,
                    hint="Give each output a name of its own.",
                )
            if isinstance(place, Path):
                refuse_unwritable(place)


def _places(name: str, writer: _Writer) -> set[Path | str]:
    """Return the files or folders that an output is known to write, or its name where it is none."""
    if "://" in name or name in {"-", "null:"}:
        return {name}
    named = writer.first_names() if isinstance(writer, _Pictures) else [name]
    return {(place.parent if _NUMBERED.search(place.name) else place).resolve() for place in map(Path, named)}


def _fits(part: Any, spec: FrameSpec) -> bool:
    planes = part if isinstance(part, tuple) else (part,)
    return all(isinstance(plane, np.ndarray | np.generic) for plane in planes) and (
        tuple(plane.shape for plane in planes) == spec.shapes and planes[0].dtype == spec.dtype
    )


# JSON, one line a frame -----------------------------------------------------------------------------------------------


class _Printed:
    """One line of JSON a frame on standard output, those of a hyperframe in one go."""

    name, continues = "-", True

    def open(self) -> None:
        pass

    def add(self, result: LiveResult) -> None:
        sys.stdout.write(_line(result))

    def settle(self) -> None:
        sys.stdout.flush()

    def finish(self) -> list[str]:
        sys.stdout.flush()
        return []

    def abort(self) -> None:
        pass


class _Lines:
    """One line of JSON a frame: whose it is, and its value."""

    continues = True

    def __init__(self, name: str, outputs: LiveOutputs) -> None:
        self.name, self._all = name, outputs
        self._staged: StagedFile | None = None
        self._holds = False  # a line

    def open(self) -> None:
        path = Path(self.name)
        if self._all.resumed:
            self._staged = StagedFile.continued(path, whole_lines)
            self._holds = self._staged.file.tell() > 0
        else:
            self._staged = StagedFile(path, kept=self._all.kept)

    def add(self, result: LiveResult) -> None:
        self._holds = True
        opened(self._staged, self.name).write(_line(result).encode())

    def settle(self) -> None:
        opened(self._staged, self.name).flush()

    def finish(self) -> list[str]:
        return [opened(self._staged, self.name).commit()]

    def abort(self) -> None:
        if self._staged is not None:
            self._staged.discard(keep=self._all.kept and self._holds)


def _line(result: LiveResult) -> str:
    return json.dumps(row_of(result)) + "\n"


def row_of(result: LiveResult) -> dict[str, Any]:
    """Return a result as JSON values."""
    return {
        "stream": result.stream,
        "frame_id": result.frame_id,
        "timestamp": result.timestamp,
        "clock": result.clock,
        "epoch": result.epoch,
        "hyperframe": result.hyperframe,
        "value": plain_value(result.value),
    }


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it; pictures as their shape."""
    if isinstance(value, dict):
        return {name: plain_value(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [plain_value(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist() if value.size <= 4096 else {"shape": list(value.shape), "dtype": str(value.dtype)}
    return value


# Rows, of all streams -------------------------------------------------------------------------------------------------


class _Rows:
    """Records, spans and small arrays as rows of one sink."""

    def __init__(self, sink: Sink, outputs: LiveOutputs) -> None:
        self.name, self._sink, self._all = sink.name, sink, outputs
        self._text = sink if isinstance(sink, RowsFile) and outputs.kept else None
        self.continues = self._text is not None or sink.place() is None
        self._together = 1 if sink.place() is None else ROWS_TOGETHER  # messages go out at once
        self._output: tuple[str, str, Spec] | None = None
        self._values: tuple[Field, ...] = ()
        self._held: list[tuple[LiveResult, Mapping[str, Array], int]] = []
        self._num_held = 0

    def open(self) -> None:
        """Wait for the first result: it tells the columns."""

    def add(self, result: LiveResult) -> None:
        if self._output is None and not self._begin(result.value):
            return
        assert self._output is not None  # begun
        name, _, spec = self._output
        value = result.value[name] if name else result.value
        rows: Mapping[str, Array]
        if isinstance(spec, RecordSpec) and not spec.fields:
            rows, count = {}, 1  # who and when
        elif value is None:
            return
        elif isinstance(spec, RecordSpec):
            rows = value
            count = len(next(iter(rows.values())))
        else:
            data, count = np.asarray(value), 1
            one = len(self._values) == 1
            rows = {f.name: (data if one else data[i]).reshape(1, *f.shape) for i, f in enumerate(self._values)}
        if count:
            self._held.append((result, rows, count))
            self._num_held += count
        if self._num_held >= self._together:
            self._flush()

    def _begin(self, value: Any) -> bool:
        if value is None and not self._all.made:
            self._output = "", "records", RecordSpec(())
        elif value is not None:
            self._output = self._all.find(value, pictures=False)
        if self._output is None:
            if value is not None and self._all.find(value, pictures=True) is not None:
                raise SinkError(
                    f"{self.name} holds rows: expected records or numbers, got pictures",
                    sink=self.name,
                    hint="Write pictures to a video (.mp4) or a folder of images.",
                )
            return False
        _, kind, spec = self._output
        target = Target("results", kind, spec, None)  # type: ignore[arg-type]  # a kind of output
        self._values = RowLayout.of(target, self.name).fields
        if taken := {f.name for f in _ABOUT} & {f.name for f in self._values}:
            raise SinkError(
                f"{self.name} cannot hold two columns named {min(taken)!r}",
                sink=self.name,
                hint=f"Rename that field: {', '.join(f.name for f in _ABOUT)} are written for every row.",
            )
        kind = "spans" if kind == "spans" else "records"
        target = Target("results", kind, RecordSpec((*_ABOUT, *self._values), _NANO), None)  # type: ignore[arg-type]
        if self._text is None:
            self._sink.open(target)
        else:
            self._text.open_kept(target, resumed=self._all.resumed)
        return True

    def settle(self) -> None:
        if self._text is not None and self._output is not None:
            self._flush()
            self._text.flush()

    def _flush(self) -> None:
        if not self._held or self._output is None:
            return
        held, self._held, self._num_held = self._held, [], 0
        counts = [count for _, _, count in held]
        about: dict[str, list[Any]] = {f.name: [getattr(r, f.name) for r, _, _ in held] for f in _ABOUT}
        columns = {f.name: np.repeat(np.array(about[f.name], f.dtype), counts) for f in _ABOUT}
        columns |= {f.name: np.concatenate([rows[f.name] for _, rows, _ in held]) for f in self._values}
        if self._output[1] == "spans":
            index, pts, stop = (
                np.concatenate([rows[name] for _, rows, _ in held]) for name in ("start", "start_ns", "stop")
            )
        else:
            index = np.repeat(np.array([r.frame_id for r, _, _ in held], np.int64), counts)
            pts, stop = np.repeat(np.array([r.pts_ns for r, _, _ in held], np.int64), counts), None
        self._sink.write(Records(columns, index, pts, RecordSpec((*_ABOUT, *self._values), _NANO), stop))

    def finish(self) -> list[str]:
        self._flush()
        if self._output is None:
            return []
        name = self._sink.close()
        return [] if name is None else [name]

    def abort(self) -> None:
        self._sink.abort(keep_parts=self._text is not None)


# Pictures, of each stream ---------------------------------------------------------------------------------------------


class _Pictures:
    """A video, folder or array for each stream, and another one when its frames change."""

    def __init__(self, name: str, outputs: LiveOutputs, streams: Sequence[str]) -> None:
        self.name, self._all, self._streams, self._several = name, outputs, streams, len(streams) > 1
        self.continues = False
        self._open: dict[str, _Album] = {}
        self._made: dict[str, int] = {}
        self._names: set[str] = set()
        self._done: list[str] = []

    def open(self) -> None:
        """Refuse folders that are filled, and wait for the first picture: it tells the size."""
        for name in self.first_names():
            sink = open_sink(name)
            if isinstance(sink, ImagesSink):
                refuse_filled(sink.place())

    def settle(self) -> None:
        """Nothing can be handed over before the end."""

    def add(self, result: LiveResult) -> None:
        album = self._open.get(result.stream)
        if album is None or not album.takes(result.value):
            found = None if result.value is None else self._all.find(result.value, pictures=True)
            if found is None:
                self._refuse(result)
                return
            if album is not None:
                self._done += album.finish()
            output, _, spec = found
            album = self._open[result.stream] = _Album(self._next_name(result.stream), output, spec)
        album.add(result)

    def _refuse(self, result: LiveResult) -> None:
        """Do without a frame that has no picture; refuse results of which none ever has."""
        records = isinstance(result.value, dict) and self._all.find(result.value, pictures=False) is not None
        if not self._open and (result.value is None or records):
            raise SinkError(
                f"{self.name} holds pictures: the operators make {'none' if result.value is None else 'records'}",
                sink=self.name,
                hint="End with an operator that makes pictures, such as --operator overlay, or write to .jsonl or .parquet.",
            )

    def first_names(self) -> list[str]:
        """Return the names that the first pictures of the streams get that are known."""
        return [self._name(stream, 1) for stream in self._streams] or [self.name]

    def _next_name(self, stream: str) -> str:
        if not self._several and self._made and stream not in self._made:
            self._several = True  # from here on they are told apart
        while True:
            number = self._made[stream] = self._made.get(stream, 0) + 1
            name = self._name(stream, number)
            if name not in self._names:  # those of 'b/1' and 'b_1' read alike
                self._names.add(name)
                return name

    def _name(self, stream: str, number: int) -> str:
        safe = re.sub(r"[^\w.@+-]+", "_", without_credentials(stream))
        safe = safe.encode()[:TAG_BYTES].decode(errors="ignore")
        return tagged(self.name, (f"-{safe}" if self._several else "") + (f"-{number}" if number > 1 else ""))

    def finish(self) -> list[str]:
        while self._open:
            self._done += self._open.pop(next(iter(self._open))).finish()
        return self._done

    def abort(self) -> None:
        for album in self._open.values():
            album.abort()


class _Album:
    """The pictures of one stream, of one size, in one sink."""

    def __init__(self, name: str, output: str, spec: Spec) -> None:
        assert isinstance(spec, FrameSpec)  # pictures were asked for
        self._output, self._spec = output, spec.replace(time_base=TICK)
        self._sink = open_sink(name)
        chosen = choose_format(self._spec, self._sink.accepts(self._spec))
        self._kernel: Kernel | None = None
        target = self._spec
        if chosen not in {None, spec.pixel_format}:
            convert = Convert(str(chosen))
            target, self._kernel = convert.output_spec(self._spec), convert.frame_kernel(self._spec)
        self._planes = tuple(np.empty((PICTURES_TOGETHER, *shape), target.dtype) for shape in target.shapes)
        self._target, self._pts = target, np.zeros(PICTURES_TOGETHER, np.int64)
        self._held = self._position = 0
        self._first_ns: int | None = None
        self._last = -1
        self._sink.open(Target("results", "frames", target, None, size=PICTURES_TOGETHER))

    def takes(self, value: Any) -> bool:
        """Whether a value has pictures of this size, or none."""
        part = value[self._output] if self._output and isinstance(value, dict) else value
        return part is None or _fits(part, self._spec)

    def add(self, result: LiveResult) -> None:
        part = result.value[self._output] if self._output and isinstance(result.value, dict) else result.value
        if part is None:
            return
        sources = part if isinstance(part, tuple) else (part,)
        targets = tuple(plane[self._held, ...] for plane in self._planes)
        if self._kernel is not None:
            self._kernel(sources, targets)
        else:
            for source, target in zip(sources, targets, strict=True):
                np.copyto(target, source)
        if self._first_ns is None:
            self._first_ns = result.pts_ns
        self._last = max(self._last + 1, round((result.pts_ns - self._first_ns) * _NANO / TICK))  # times only rise
        self._pts[self._held] = self._last
        self._held += 1
        if self._held == PICTURES_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        held, self._held = self._held, 0
        if held:
            index = np.arange(self._position, self._position + held, dtype=np.int64)
            self._position += held
            self._sink.write(Clip(tuple(plane[:held] for plane in self._planes), self._pts[:held], index, self._target))

    def finish(self) -> list[str]:
        self._flush()
        name = self._sink.close()
        return [] if name is None else [name]

    def abort(self) -> None:
        self._sink.abort()
