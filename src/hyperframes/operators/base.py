"""What an operator is: the interface that files, cameras, sensors, models and devices share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Clip, FrameSpec, Layout, Records, RecordSpec, Spec
from hyperframes.packing import Halo, Hyperframe

__all__ = [
    "Contract",
    "Dependency",
    "Operator",
    "Output",
    "State",
    "View",
    "Worker",
    "frames_out",
    "parse_stage",
]

Dependency = Literal["independent", "sequential"]
State = dict[str, Any]
"""What a sequential operator carries: a flat dict of arrays and numbers, nothing that cannot be saved."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an operator, indexed by frame, window or span of the stream, never by hyperframe.

    ``frames`` and ``records``: a core [a, b) owns outputs [ceil(a * ratio), ceil(b * ratio)), so that output j
    stands at input position j / ratio. ``windows``: window j covers input frames [j * hop, j * hop + length) and
    belongs to the core that holds j * hop; the driver adds the halo; frames past the end are the boundary's.
    ``spans`` carry their own range and come from sequential operators only.
    """

    name: str
    kind: Literal["frames", "records", "windows", "spans"]
    spec: Spec
    ratio: Fraction = Fraction(1)
    length: int = 1
    """Frames a window covers."""
    hop: int = 1
    """Frames from one window to the next."""
    rate: Fraction = field(init=False)
    """Outputs per input frame."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", Fraction(self.ratio))
        object.__setattr__(self, "rate", Fraction(1, max(1, self.hop)) if self.kind == "windows" else self.ratio)
        if self.ratio <= 0 or self.length < 1 or self.hop < 1:
            raise PipelineError(
                f"output {self.name!r}: expected ratio above 0, length and hop of at least 1, "
                f"got {self.ratio}, {self.length}, {self.hop}"
            )
        if (self.kind in {"records", "spans"}) != isinstance(self.spec, RecordSpec):
            raise PipelineError(f"output {self.name!r} of kind {self.kind!r}: its spec is a {type(self.spec).__name__}")

    @property
    def halo(self) -> Halo:
        """Frames after the core that windows reach into."""
        return Halo(0, self.length - 1) if self.kind == "windows" else Halo()

    def owned(self, core: tuple[int, int]) -> tuple[int, int]:
        """Return the range of outputs that belong to the input frames `core`."""
        if self.rate == 1:
            return core
        return math.ceil(core[0] * self.rate), math.ceil(core[1] * self.rate)

    def needed_core(self, outputs: tuple[int, int]) -> tuple[int, int]:
        """Return the smallest range of input frames that own all of `outputs`."""
        start, stop = outputs
        if self.rate == 1:
            return outputs
        if stop <= start:
            edge = math.floor(start / self.rate)
            return edge, edge
        return math.floor(start / self.rate), math.floor((stop - 1) / self.rate) + 1


@dataclass(frozen=True, slots=True)
class Contract:
    """What an operator promises once it knows its inputs."""

    outputs: tuple[Output, ...]
    halo: Halo = field(default_factory=Halo)
    """Input frames it reads on each side of the core."""
    dependency: Dependency = "independent"
    resource: str = "compute"
    """``compute``, ``memory`` (bandwidth-bound), ``io`` or ``device:NAME``."""
    takes_mask: bool = False
    """True when it reads ``Hyperframe.mask``; only then may the boundary be ``none``."""
    selects: bool = False
    """True when it leaves outputs out depending on the data (`View.keep`); then only sinks may read it."""
    snapshot: bool = True
    """False when its state cannot be saved: a resumed run computes it again from the start."""


@dataclass(slots=True, eq=False)
class View:
    """Where an operator writes one output for one core; exactly the outputs that the core owns.

    Frames and windows go to `planes`; records and spans are added as columns.
    """

    output: Output
    start: int
    """Position of the first output owned."""
    stop: int
    planes: tuple[Array, ...] = ()
    """Frames, windows: writable arrays (stop - start, ...) per plane; their old content is undefined."""
    kept: Array | None = None
    """(stop - start,) bool; set by operators that select: what is False is left out and counted as filtered."""
    rows: list[tuple[Array, Array | None, Mapping[str, Array], Array | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def data(self) -> Array:
        """The single plane of one-plane outputs."""
        (plane,) = self.planes
        return plane

    def keep(self, mask: Array) -> None:
        """Leave out the outputs where `mask`, (stop - start,) bool, is False."""
        self.kept = np.asarray(mask, bool)

    def add(self, index: Any, *, stop: Any = None, pts: Any = None, **columns: Any) -> None:
        """Add record rows.

        Parameters
        ----------
        index : int or (R,) ints
            Input frame of each row, in stream positions; the first frame of a span.
        stop : int or (R,) ints, optional
            One past the last frame of a span.
        pts : int or (R,) ints, optional
            Time of frame `index`; needed for spans that began before the frames in hand.
        **columns
            One value or (R, ...) array per field of the output's RecordSpec; copied, so views of lent frames may be given.
        """
        assert isinstance(self.output.spec, RecordSpec)
        names = {f.name for f in self.output.spec.fields}
        if set(columns) != names:
            raise ValueError(f"records of {self.output.name!r} have the fields {sorted(names)}, got {sorted(columns)}")
        rows = np.atleast_1d(np.asarray(index, np.int64))
        stops = None if stop is None else np.atleast_1d(np.asarray(stop, np.int64))
        values = {
            f.name: np.array(columns[f.name], f.dtype).reshape(len(rows), *f.shape) for f in self.output.spec.fields
        }
        times = None if pts is None else np.atleast_1d(np.asarray(pts, np.int64))
        self.rows.append((rows, stops, values, times))


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """Where an operator runs."""

    index: int = 0
    resource: str = "compute"
    device: str | None = None
    split: Callable[[int, Callable[[int, int], None]], None] = lambda total, part: part(0, total)
    """``split(total, part)`` covers [0, total) by calls ``part(start, stop)``, on idle workers too where there are
    any; returns when all are done. For kernels over rows or pixels that write disjoint memory."""
    threads: int = 1
    """Threads that a library may use inside one call: 1 where the driver's own workers fill the machine."""


class Operator(ABC):
    """A step over hyperframes.

    Subclasses are dataclasses whose fields are the parameters users may give (``NAME:radius=2``). Instances hold
    parameters only: what `configure` learns is returned in the Contract or derived from the inputs again, and what
    a worker needs is made by `prepare`. One instance serves many workers at once.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raised when results change; part of the resume fingerprint."""
    compiles: ClassVar[bool] = False
    """Whether the first call compiles or loads something. The driver then calls `apply` once on an empty core of the
    same dtype and layout while it prepares a worker, and throws the result away: neither that nor a first frame that
    takes seconds is in any measured time."""
    formats: ClassVar[tuple[str, ...] | None] = None
    """Pixel formats it takes; a picture in another one is converted to the nearest before it. None: any planes."""
    reads_both: ClassVar[bool] = False
    """In a plain chain: whether it reads what the operator before it read, and then what that one made of it."""
    wants_layout: ClassVar[Layout | None] = None
    """Axis order of pictures that its innermost loop wants; another one is converted once, for all who want it."""

    @abstractmethod
    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return what will come out for `inputs`; called before the first frame is read.

        Raises
        ------
        PipelineError
            If it cannot work on them.
        """

    def prepare(self, worker: Worker) -> Any:
        """Return what one worker shares between hyperframes: tables, models, buffers. Default: the worker."""
        return worker

    @abstractmethod
    def apply(
        self,
        inputs: tuple[Hyperframe, ...],
        outputs: tuple[View, ...],
        state: State | None,
        prepared: Any,
    ) -> State | None:
        """Compute the outputs of one core.

        Parameters
        ----------
        inputs : tuple of Hyperframe
            One per port, with exactly the contract's halo (plus what windows need) around one core. Read-only.
        outputs : tuple of View
            One per output of the contract; every owned output must be written.
        state : dict or None
            Sequential operators: what the previous call returned, None at the start of a stream.
        prepared : Any
            What `prepare` returned for this worker.

        Returns
        -------
        dict or None
            The new state of a sequential operator; else None. The old state must not be changed in place.

        Notes
        -----
        A sequential operator is called with ``header.end`` set for the last core, and may then add what it held back.
        """


Result = Clip | Records
"""What sinks receive of one hyperframe."""


def frames_out(inputs: tuple[Spec, ...], name: str = "frames", **changes: Any) -> Output:
    """Return a frames output like the only input, with `changes` to its spec."""
    (spec,) = inputs
    if not isinstance(spec, FrameSpec):
        raise PipelineError(f"frames are needed here: expected pictures or arrays, got {spec}")
    return Output(name, "frames", spec.replace(**changes) if changes else spec)


def parse_stage(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:key=value,key=value`` into name and parameters.

    Examples
    --------
    >>> parse_stage("resize:width=320,height=180")
    ('resize', {'width': '320', 'height': '180'})
    """
    name, _, rest = text.partition(":")
    parameters: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise PipelineError(
                f"operator {text!r}: expected key=value after the colon, got {item!r}",
                hint=f"For example: --operator {name}:{key or 'radius'}=2",
            )
        parameters[key.strip()] = value.strip()
    return name.strip(), parameters
