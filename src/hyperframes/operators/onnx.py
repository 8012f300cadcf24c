"""Run a model file on the frames: ONNX Runtime behind the operator interface."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import Array, Field, FrameSpec, Layout, RecordSpec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.checks import check_count, frame_spec
from hyperframes.operators.onnx_model import PIXEL_FORMATS_READ, ModelForm, file_checksum, first_line, form_of, identity
from hyperframes.operators.pixel_kernels import look_up
from hyperframes.operators.resize import Resize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Onnx"]


def _wrong(message: str, *, got: Any = None, hint: str | None = None) -> PipelineError:
    return PipelineError(f"operator 'onnx': {message}", stage="onnx", got=got, hint=hint)


def _called(model: str) -> str:
    return f"the model {Path(model).name}"


@dataclass(frozen=True)
class Onnx(Operator):
    """Run a model file (``.onnx``) on the frames: classifiers, detectors, embeddings, image to image.

    Frames of any size -> one record a frame with a field for each output of the model, of its shape and dtype; frames or
    windows where asked for. Pictures are scaled to the model's size and every sample becomes
    ``(x * scale - mean) / std``; arrays that have the shape and dtype of its input go in as they are. No halo; models that read several frames give one window for each run of them.

    Parameters
    ----------
    model : str
        Path of the file.
    outputs : tuple of str
        Names of the model's outputs to keep; the others are not computed where that can be saved. Default: all.
    kind : {'auto', 'records', 'frames', 'windows'}
        What comes out. ``auto``: records, of models that read several frames windows.
    scale : float, optional
        Default: the model's metadata, else 1/255 for models that read floats.
    mean : tuple of float, optional
        One for all channels or one each, in units after scaling. Default: the model's metadata, else 0.
    std : tuple of float, optional
        As `mean`, above 0. Default: the model's metadata, else 1.
    channels : {'auto', 'rgb', 'bgr'}
        Order of the colours. ``auto``: the model's metadata, else ``rgb``.
    interpolation : {'auto', 'area', 'linear', 'nearest', 'cubic', 'lanczos'}
        How pictures are scaled; see `resize`.
    batch : int
        Frames (or windows) that go through the model at once. 0: the model's own number; 1 where it leaves it free.
    hop : int
        Frames from one window to the next, of models that read several. 0: as many as it reads.

    Notes
    -----
    Frames go through the model in pieces of exactly `batch`, cut from however many are in hand; the last piece is filled
    up with its last frame and what comes of that is thrown away, so no result depends on the size of hyperframes. Frames
    whose mask is False are not computed: their results are zeros. Metadata read: ``scale``, ``mean``, ``std`` and
    ``channels`` of the file's custom properties. One session serves all workers of a process; how many threads work
    inside one call is the driver's choice.

    On a CPU more than a few frames at once are often slower, since the activations leave the cache; on a device they are
    faster.

    Examples
    --------
    ``--operator onnx:model=efficientnet-lite0.onnx,scale=1,mean=127,std=128,outputs=logits``
    """

    name: ClassVar[str] = "onnx"
    compiles: ClassVar[bool] = True
    wants_layout: ClassVar[Layout | None] = "NHWC"

    model: str
    outputs: tuple[str, ...] = ()
    kind: Literal["auto", "records", "frames", "windows"] = "auto"
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: Literal["auto", "rgb", "bgr"] = "auto"
    interpolation: Literal["auto", "area", "linear", "nearest", "cubic", "lanczos"] = "auto"
    batch: int = 0
    hop: int = 0

    def __post_init__(self) -> None:
        check_count(self.name, "batch", self.batch, 0, 4096)
        check_count(self.name, "hop", self.hop, 0, 1_000_000)
        for key, least in (("mean", -np.inf), ("std", 0.0)):
            values = getattr(self, key)
            if values is not None and not all(np.isfinite(v) and v > least for v in values):
                wanted = "numbers above 0" if key == "std" else "finite numbers"
                raise _wrong(f"expected {wanted} for {key}, got {values}", got=values)
        # Another model under the same name is another operator: resumed runs must not take one for the other.
        object.__setattr__(self, "version", file_checksum(*identity(self.model)))
        object.__setattr__(self, "formats", (PIXEL_FORMATS_READ[self._form.channels],))

    @property
    def _form(self) -> ModelForm:
        return form_of(*identity(self.model), threads=1)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return what the model makes of frames like these, found by running it once on zeros.

        Raises
        ------
        PipelineError
            If the file is no model, the model does not read pictures, or a parameter does not fit it.
        MissingExtraError
            Without ONNX Runtime.
        """
        spec = frame_spec(self.name, inputs)
        form = self._form
        kind = self._kind_for(form)
        names = self._output_names(form)
        feed = _Feed.of(self, form, spec)
        shapes = self._probed(form, feed, names)
        if kind == "records":
            fields = tuple(Field(name, dtype, shape) for name, (shape, dtype) in shapes.items())
            return Contract((Output("records", "records", RecordSpec(fields)),), takes_mask=True)
        length, hop = (form.length, self.hop or form.length) if kind == "windows" else (1, 1)
        rate = None if spec.rate is None else spec.rate / hop
        made = tuple(
            Output(name, kind, FrameSpec.array(shape, dtype, rate=rate), length=length, hop=hop)
            for name, (shape, dtype) in shapes.items()
        )
        return Contract(made, takes_mask=True)

    def _kind_for(self, form: ModelForm) -> Literal["records", "frames", "windows"]:
        several = form.length > 1
        if self.kind == "auto":
            return "windows" if several else "records"
        if (self.kind == "windows") != several:
            reads = f"{form.length} frames at once" if several else "one frame at a time"
            raise _wrong(
                f"{_called(self.model)} reads {reads}: expected kind {'windows' if several else 'records or frames'}, "
                f"got {self.kind}",
                got=self.kind,
            )
        return self.kind

    def _output_names(self, form: ModelForm) -> tuple[str, ...]:
        for name in self.outputs:
            if name not in form.outputs:
                raise _wrong(
                    f"{_called(self.model)} has no output {name!r}: expected one of {', '.join(form.outputs)}", got=name
                )
        return self.outputs or form.outputs

    def _probed(
        self, form: ModelForm, feed: _Feed, names: tuple[str, ...]
    ) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        try:
            results = form.session.run(list(names), {form.input: feed.empty()})
        except Exception as error:
            raise _wrong(f"{_called(self.model)} failed on a picture of zeros: {first_line(error)}") from error
        found = {}
        for name, result in zip(names, results, strict=True):
            if not isinstance(result, np.ndarray) or result.ndim < 1 or len(result) != feed.batch:
                got = f"shape {result.shape}" if isinstance(result, np.ndarray) else f"a {type(result).__name__}"
                raise _wrong(
                    f"output {name!r} of {_called(self.model)} has no results a frame: expected shape ({feed.batch}, ...), "
                    f"got {got}",
                    got=got,
                    hint="Leave it out: outputs=NAME/NAME keeps only those named.",
                )
            found[name] = (result.shape[1:], result.dtype)
        return found

    # At work ----------------------------------------------------------------------------------------------------------

    def prepare(self, worker: Worker) -> _Prepared:
        """Return the session that this process's workers share, and room for this worker's inputs."""
        return _Prepared(form_of(*identity(self.model), threads=worker.threads), {})

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: _Prepared
    ) -> None:
        """Run the model on the core's frames, or on the windows that start in it."""
        (hyperframe,) = inputs
        feed = prepared.feeds.get(hyperframe.spec)
        if feed is None:
            feed = prepared.feeds[hyperframe.spec] = _Feed.of(self, prepared.form, hyperframe.spec)
        records = outputs[0].output.kind == "records"
        names = (
            tuple(f.name for f in outputs[0].output.spec.fields)  # type: ignore[union-attr]  # records have fields
            if records
            else tuple(view.output.name for view in outputs)
        )
        wanted, starts = _starts(hyperframe, outputs[0])
        columns = _columns(names, outputs, len(starts))
        for places, results in self._results(prepared.form, feed, hyperframe.planes[0], names, wanted, starts):
            for name, result in zip(names, results, strict=True):
                _check_shape(_called(self.model), name, result, columns[name])
                columns[name][places] = result[: len(places)]
        if records:
            start, stop = hyperframe.header.core
            outputs[0].add(np.arange(start, stop), **columns)

    def _results(
        self, form: ModelForm, feed: _Feed, frames: Array, names: tuple[str, ...], wanted: Array, starts: Array
    ) -> Iterator[tuple[Array, list[Array]]]:
        """Yield (places, results) of every call of the model."""
        for first in range(0, len(wanted), feed.batch):
            places = wanted[first : first + feed.batch]
            for row, place in enumerate(places):
                feed.put(row, frames[starts[place] : starts[place] + form.length])
            feed.rows[len(places) :] = feed.rows[len(places) - 1]
            yield places, form.session.run(list(names), {form.input: feed.rows})


class _Prepared(NamedTuple):
    """What one worker keeps."""

    form: ModelForm
    feeds: dict[FrameSpec, _Feed]


def _starts(hyperframe: Hyperframe, view: View) -> tuple[Array, Array]:
    """Return which results of the view are wanted, and where in the hyperframe the frames of each begin."""
    first, output = hyperframe.core.start, view.output
    if output.kind == "windows":
        origin = first - hyperframe.header.core[0]
        starts = origin + np.arange(view.start, view.stop) * output.hop
        return np.arange(len(starts)), starts
    starts = np.arange(first, hyperframe.core.stop)
    return np.flatnonzero(hyperframe.mask[hyperframe.core]), starts


def _columns(names: tuple[str, ...], outputs: tuple[View, ...], count: int) -> dict[str, Array]:
    """Return where results go: new columns of records, zero where nothing is computed, or the views themselves."""
    if outputs[0].output.kind != "records":
        for view in outputs:
            view.data[...] = 0
        return {view.output.name: view.data for view in outputs}
    spec = outputs[0].output.spec
    assert isinstance(spec, RecordSpec)
    return {field.name: np.zeros((count, *field.shape), field.dtype) for field in spec.fields}


def _check_shape(called: str, name: str, result: Array, column: Array) -> None:
    if result.shape[1:] != column.shape[1:]:
        raise FrameError(
            f"output {name!r} of {called} changed its shape: expected {column.shape[1:]} a frame as at first, "
            f"got {result.shape[1:]}",
            expected=column.shape[1:],
            got=result.shape[1:],
        )


# What goes in ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Feed:
    """The model's input for one kind of frames: where rows are put, and how a frame becomes one."""

    rows: Array
    """(batch, ...) in the model's layout."""
    put_frame: Callable[[Array, Array], None]
    """``put_frame(frame, row)`` fills one frame's part of a row."""
    length: int
    time_axis: int
    """Of a row: where its frames are counted; -1 where it is one frame."""

    @property
    def batch(self) -> int:
        """Rows of one call."""
        return len(self.rows)

    def empty(self) -> Array:
        """Return an input of zeros."""
        return np.zeros_like(self.rows)

    def put(self, row: int, frames: Array) -> None:
        """Make row number `row` from `frames`, (length, ...)."""
        target = self.rows[row]
        if self.time_axis < 0:
            self.put_frame(frames[0], target)
            return
        for t in range(self.length):
            self.put_frame(frames[t], target[(slice(None),) * self.time_axis + (t,)])

    @classmethod
    def of(cls, operator: Onnx, form: ModelForm, spec: FrameSpec) -> _Feed:
        """Return the feed for frames of `spec`, or raise a PipelineError."""
        batch = _checked_batch(operator, form)
        picture = spec.is_picture and len(spec.shapes) == 1 and spec.dtype == np.uint8
        height = form.height or (spec.height if picture else None)
        width = form.width or (spec.width if picture else None)
        shape = _frame_shape(form, height, width)
        if picture:
            put = _picture_feed(operator, form, spec, shape)
        elif len(spec.shapes) == 1 and _fits(spec, form):
            shape, put = spec.shapes[0], _copied
        else:
            raise _wrong(
                f"{_called(operator.model)} reads pictures, or arrays {shape} of {form.dtype}: got {spec}",
                got=spec,
                hint="Give it pictures; they are scaled to fit.",
            )
        axis = form.time_axis
        row = shape if axis < 0 else (*shape[:axis], form.length, *shape[axis:])
        return cls(np.zeros((batch, *row), form.dtype), put, form.length, axis)


def _copied(frame: Array, row: Array) -> None:
    np.copyto(row, frame)


def _fits(spec: FrameSpec, form: ModelForm) -> bool:
    wanted = _frame_shape(form, form.height, form.width)
    shape = spec.shapes[0]
    return (
        spec.dtype == form.dtype and len(shape) == 3 and all(w in (None, s) for w, s in zip(wanted, shape, strict=True))
    )


def _frame_shape(form: ModelForm, height: Any, width: Any) -> tuple[Any, ...]:
    return (form.channels, height, width) if form.channels_first else (height, width, form.channels)


def _checked_batch(operator: Onnx, form: ModelForm) -> int:
    if form.batch is not None and operator.batch not in {0, form.batch}:
        raise _wrong(
            f"{_called(operator.model)} takes {form.batch} at once: expected batch={form.batch}, got {operator.batch}",
            got=operator.batch,
            hint="Leave batch out: frames are put together or apart as the model needs them.",
        )
    return operator.batch or form.batch or 1


def _picture_feed(
    operator: Onnx, form: ModelForm, spec: FrameSpec, shape: tuple[int, ...]
) -> Callable[[Array, Array], None]:
    """Return what scales a picture, turns samples into numbers, and puts the channels where they belong."""
    tables = _tables(operator, form)
    height, width = (shape[1], shape[2]) if form.channels_first else (shape[0], shape[1])
    small, kernel = None, None
    if (height, width) != (spec.height, spec.width):
        resize = Resize(width, height, operator.interpolation)
        target = resize.output_spec(spec)
        small, kernel = np.empty(target.shapes[0], np.uint8), resize.frame_kernel(spec)
    order = range(form.channels)[::-1] if _order(operator, form) == "bgr" else range(form.channels)

    def put(frame: Array, row: Array) -> None:
        if kernel is not None and small is not None:
            kernel((frame,), (small,))
            frame = small
        planes = frame[..., None] if frame.ndim == 2 else frame
        for channel, source in enumerate(order):
            look_up(planes[..., source], tables[channel], row[channel] if form.channels_first else row[..., channel])

    return put


def _order(operator: Onnx, form: ModelForm) -> str:
    order = operator.channels
    if order == "auto":
        order = form.metadata.get("channels", "rgb").strip().lower()  # type: ignore[assignment]  # checked below
    if order not in {"rgb", "bgr"}:
        raise _wrong(
            f"the metadata of {_called(operator.model)} has channels {order!r}: expected rgb or bgr",
            got=order,
            hint="Say which: channels=rgb",
        )
    return order


def _tables(operator: Onnx, form: ModelForm) -> Array:
    """Return (channels, 256) numbers for every value of a byte, exactly rounded."""
    whole = form.dtype.kind == "u"
    scale = operator.scale
    if scale is None:
        scale = (_metadata(operator, form, "scale") or (1.0 if whole else 1 / 255,))[0]
    mean, std = (
        np.array(getattr(operator, key) or _metadata(operator, form, key) or (default,), np.float64)
        for key, default in (("mean", 0.0), ("std", 1.0))
    )
    for key, numbers in (("mean", mean), ("std", std)):
        if len(numbers) not in {1, form.channels}:
            raise _wrong(
                f"expected 1 or {form.channels} numbers for {key}, one a channel of {_called(operator.model)}, "
                f"got {len(numbers)}",
                got=tuple(numbers),
            )
    numbers = (np.arange(256)[None] * scale - mean[:, None]) / std[:, None]
    if whole and not np.array_equal(numbers, numbers.clip(0, 255).round()):
        raise _wrong(f"{_called(operator.model)} reads bytes: leave scale, mean and std out")
    return np.broadcast_to(numbers, (form.channels, 256)).astype(form.dtype)


def _metadata(operator: Onnx, form: ModelForm, key: str) -> tuple[float, ...] | None:
    text = form.metadata.get(key)
    if text is None:
        return None
    try:
        numbers = tuple(
            float(Fraction(word) if "/" in word else word) for word in re.split(r"[\s,;\[\]()]+", text) if word
        )
    except (ValueError, ZeroDivisionError):
        numbers = ()
    if not numbers or not all(np.isfinite(numbers)) or (key == "std" and min(numbers) <= 0):
        raise _wrong(
            f"the metadata of {_called(operator.model)} has {key} {text!r}: expected numbers",
            got=text,
            hint=f"Say what they are: {key}=0.5",
        )
    return numbers
