"""What an operator must keep to, as tests that its author subclasses, and the small runner they rest on.

Needs pytest and hypothesis. No driver takes part: `run_split` calls an operator core by core as every driver does
(ranges, boundaries, ratios, windows, keep masks, state), so a failure here is the operator's own.
"""

from __future__ import annotations

import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Clip, FrameSpec, Records, RecordSpec
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.packing import Boundary, Halo, pad, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["OperatorSuite", "Results", "assert_same", "random_planes", "run_split", "run_whole"]

Results = dict[str, Clip | Records]
"""What came out, by output name: `Clip` of frames and windows, `Records` of records and spans."""


def run_whole(
    operator: Operator,
    planes: Sequence[Array],
    pts: Array,
    spec: FrameSpec,
    boundary: str | Boundary = "replicate",
    **options: Any,
) -> Results:
    """Run `operator` once over the whole padded sequence; the arguments are those of `run_split`."""
    return run_split(operator, planes, pts, spec, boundary, size=max(1, len(pts)), **options)


def run_split(
    operator: Operator,
    planes: Sequence[Array],
    pts: Array,
    spec: FrameSpec,
    boundary: str | Boundary = "replicate",
    *,
    size: int,
    worker: Worker | None = None,
    poison: int = 0xA5,
) -> Results:
    """Run `operator` core by core and put the results together.

    Parameters
    ----------
    operator : Operator
        With one input port.
    planes : sequence of arrays (N, ...)
        The stream, one array per plane; lent read-only.
    pts : (N,) int64
        Presentation times in ticks.
    spec : FrameSpec
        Of the frames.
    boundary : str or Boundary
        What stands beyond the ends.
    size : int
        Frames a core owns.
    worker : Worker, optional
        Handed to `Operator.prepare`; give one whose `split` cuts, to test kernels that are split.
    poison : int
        Byte that output arrays are filled with first, so that what is not written shows.

    Returns
    -------
    dict of Clip or Records, by output name

    Raises
    ------
    AssertionError
        If the operator breaks the interface: state that is no flat dict, a keep mask of the wrong length, records
        outside the core.
    """
    contract = operator.configure((spec,))
    boundary = Boundary.parse(boundary)
    prepared = operator.prepare(worker or Worker())
    halo = contract.halo + Halo(0, max(output.halo.after for output in contract.outputs))
    views: list[list[View]] = [[] for _ in contract.outputs]
    state: State | None = None
    for hyperframe in view(tuple(planes), np.asarray(pts), spec, size, boundary.reach(halo)):
        padded = pad(hyperframe, halo, boundary)
        core = padded.header.core
        now = [_view(output, core, poison) for output in contract.outputs]
        state = _checked(contract, operator.apply((padded,), tuple(now), state, prepared))
        for collected, written in zip(views, now, strict=True):
            _check_view(written, padded.header.read, core, np.asarray(pts))
            collected.append(written)
    return {
        output.name: _gather(output, written, np.asarray(pts))
        for output, written in zip(contract.outputs, views, strict=True)
    }


def _view(output: Output, core: tuple[int, int], poison: int) -> View:
    start, stop = output.owned(core)
    if isinstance(output.spec, RecordSpec):
        return View(output, start, stop)
    planes = tuple(np.empty((stop - start, *shape), output.spec.dtype) for shape in output.spec.shapes)
    for plane in planes:
        plane.reshape(-1).view(np.uint8)[:] = poison
    return View(output, start, stop, planes)


def _check_view(written: View, read: tuple[int, int], core: tuple[int, int], pts: Array) -> None:
    name = written.output.name
    if written.kept is not None:
        assert written.kept.shape == (len(written),), f"{name}: keep takes one bool an output"
    if written.output.kind not in {"records", "spans"}:
        assert not written.rows, f"{name}: frames and windows have no rows"
    for index, stop, _, times in written.rows:
        if times is not None:
            np.testing.assert_array_equal(times, pts[index], err_msg=f"{name}: times of rows")
        if written.output.kind == "spans":
            assert stop is not None, f"{name}: a span has a stop"
            assert times is not None or np.all(index >= read[0]), f"{name}: spans begun long ago need their pts"
            assert np.all((index >= 0) & (index < stop) & (stop <= len(pts))), f"{name}: spans lie in the stream"
        else:
            assert stop is None, f"{name}: records have no stop"
            assert np.all((index >= core[0]) & (index < core[1])), f"{name}: records belong to frames of the core"


def _checked(contract: Contract, state: State | None) -> State | None:
    """Return a copy of `state` that cannot be written in place."""
    if contract.dependency == "independent":
        assert state is None, "only sequential operators return a state"
        return None
    assert isinstance(state, dict), "a sequential operator returns its state, a dict"
    saved: State = {}
    for key, value in state.items():
        assert isinstance(key, str), "keys of a state are names"
        assert isinstance(value, (np.ndarray, np.generic, int, float, bool)), f"state {key!r}: arrays and numbers only"
        saved[key] = value
        if isinstance(value, np.ndarray):
            assert value.dtype != object, f"state {key!r}: arrays of numbers only"
            saved[key] = value.copy()
            saved[key].flags.writeable = False
    return saved


def _gather(output: Output, views: list[View], pts: Array) -> Clip | Records:
    if isinstance(output.spec, RecordSpec):
        return _gather_records(output, output.spec, [row for v in views for row in v.rows], pts)
    planes = tuple(
        np.concatenate([np.empty((0, *shape), output.spec.dtype), *(_kept(v, v.planes[i]) for v in views)])
        for i, shape in enumerate(output.spec.shapes)
    )
    index = np.concatenate([np.empty(0, np.int64), *(_kept(v, np.arange(v.start, v.stop)) for v in views)])
    positions = [math.floor(int(j) / output.rate) for j in index]
    return Clip(planes, pts[positions], index, output.spec)


def _kept(written: View, values: Array) -> Array:
    return values if written.kept is None else values[written.kept]


def _gather_records(output: Output, spec: RecordSpec, rows: list[Any], pts: Array) -> Records:
    index = np.concatenate([np.empty(0, np.int64), *(r[0] for r in rows)])
    stop = np.concatenate([np.empty(0, np.int64), *(r[1] for r in rows)]) if output.kind == "spans" else None
    columns = {
        f.name: np.concatenate([np.empty((0, *f.shape), f.dtype), *(r[2][f.name] for r in rows)]) for f in spec.fields
    }
    return Records(columns, index, pts[index], spec, stop)


def assert_same(got: Results, expected: Results) -> None:
    """Assert that two results are equal bit for bit, any NaN being equal to any other."""
    assert got.keys() == expected.keys()
    for name, a in got.items():
        b = expected[name]
        np.testing.assert_array_equal(a.index, b.index, err_msg=f"{name}: positions")
        np.testing.assert_array_equal(a.pts, b.pts, err_msg=f"{name}: times")
        if isinstance(a, Clip) and isinstance(b, Clip):
            for i, (x, y) in enumerate(zip(a.planes, b.planes, strict=True)):
                _assert_bits(x, y, f"{name}, plane {i}")
        elif isinstance(a, Records) and isinstance(b, Records):
            if a.stop is not None:
                np.testing.assert_array_equal(a.stop, b.stop, err_msg=f"{name}: stops")
            for column, values in a.columns.items():
                _assert_bits(values, b.columns[column], f"{name}, column {column}")
        else:
            raise AssertionError(f"{name}: one result has frames, the other records")


def _assert_bits(got: Array, expected: Array, where: str) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), where
    np.testing.assert_array_equal(got, expected, err_msg=where)
    if got.dtype.kind == "f":
        real = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[real]), np.signbit(expected[real]), err_msg=f"{where}: signs of 0")


def random_planes(spec: FrameSpec, num_frames: int, seed: int, *, nans: bool = False) -> tuple[Array, ...]:
    """Return `num_frames` frames of `spec`: noise over the whole range of integers, standard normal for floats.

    Every third seed gives frames that change little, so that thresholds are met from both sides.

    Parameters
    ----------
    spec : FrameSpec
        Shapes and dtype.
    num_frames : int
        N.
    seed : int
        The same seed gives the same frames.
    nans : bool
        Whether float frames hold a few NaN and infinities.

    Returns
    -------
    tuple of arrays (N, ...), one per plane
    """
    random = np.random.default_rng(seed)
    return tuple(_random_plane((num_frames, *s), spec.dtype, random, seed % 3 == 2, nans) for s in spec.shapes)


def _random_plane(
    shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator, calm: bool, nans: bool
) -> Array:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not calm:
            return random.integers(info.min, info.max, shape, dtype, endpoint=True)
        picture = random.integers(info.max // 4, info.max // 2, shape[1:], np.int64)
        return (picture + random.integers(0, 6, shape)).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    values = random.normal(size=shape)
    if calm:
        values = random.normal(size=shape[1:]) + values / 64
    if nans and not calm:
        odd = random.choice([np.nan, np.inf, -np.inf], shape)
        values = np.where(random.random(shape) < 0.03, odd, values)
    return np.asarray(values).astype(dtype)


def _ragged_split(total: int, part: Callable[[int, int], None]) -> None:
    """Cover [0, total) in uneven pieces, back to front, as idle workers might."""
    edges = sorted({0, total // 5, total // 2, total})
    for start, stop in reversed(list(itertools.pairwise(edges))):
        part(start, stop)


class OperatorSuite:
    """The tests that every operator passes; subclass it and name what to test.

    Examples
    --------
    >>> from hyperframes.operators.temporal_mean import TemporalMean
    >>> class TestTemporalMean(OperatorSuite):
    ...     operators = (TemporalMean(), TemporalMean(radius=0))
    ...     specs = (FrameSpec.picture(4, 6, "rgb24"), FrameSpec.array((3,), np.float32))
    ...     refused = ({"radius": -1},)
    """

    operators: ClassVar[Sequence[Operator]] = ()
    """Instances to test, of one class."""
    specs: ClassVar[Sequence[FrameSpec]] = ()
    """What they are run on; small, since many runs are made."""
    refused: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Parameters that must be refused before the first frame is read."""
    boundaries: ClassVar[Sequence[str]] = ("replicate", "reflect", "constant", "constant:16")
    nans: ClassVar[bool] = True
    """Whether float frames hold a few NaN and infinities."""
    max_frames: ClassVar[int] = 12

    def _given(self, check: Callable[..., None]) -> None:
        """Call `check(operator, spec, planes, pts, boundary, size)` with drawn arguments."""
        suite = self

        @given(st.data())
        def draw_and_check(data: st.DataObject) -> None:
            operator = data.draw(st.sampled_from(list(suite.operators)), "operator")
            spec = data.draw(st.sampled_from(list(suite.specs)), "spec")
            num_frames = data.draw(st.integers(0, suite.max_frames), "num_frames")
            size = data.draw(st.integers(1, num_frames + 2), "size")
            planes = random_planes(spec, num_frames, data.draw(st.integers(0, 10_000), "seed"), nans=suite.nans)
            steps = np.random.default_rng(num_frames).integers(1, 4, num_frames)
            check(operator, spec, planes, np.cumsum(steps), data.draw(st.sampled_from(suite.boundaries)), size)

        draw_and_check()

    def _each(self) -> Iterator[tuple[Operator, FrameSpec, tuple[Array, ...], Array]]:
        for operator in self.operators:
            for spec in self.specs:
                yield operator, spec, random_planes(spec, 5, seed=2), np.arange(5)

    def test_many_hyperframes_give_what_one_gives(self) -> None:
        """Results do not depend on the size, whatever the length and the boundary."""

        def check(op: Operator, spec: FrameSpec, planes: Any, pts: Array, boundary: str, size: int) -> None:
            assert_same(
                run_split(op, planes, pts, spec, boundary, size=size, poison=0x11),
                run_whole(op, planes, pts, spec, boundary, poison=0xEE),
            )

        self._given(check)

    def test_splitting_the_pixels_over_workers_changes_nothing(self) -> None:
        """Kernels that use `Worker.split` write the same whatever the parts are."""
        worker = Worker(split=_ragged_split)
        for operator, spec, planes, pts in self._each():
            assert_same(run_whole(operator, planes, pts, spec, worker=worker), run_whole(operator, planes, pts, spec))

    def test_every_output_is_written(self) -> None:
        """Old content of output arrays never shows."""
        for operator, spec, planes, pts in self._each():
            first, second = (run_whole(operator, planes, pts, spec, poison=byte) for byte in (0x00, 0xFF))
            assert_same(first, second)

    def test_frames_read_are_not_written(self) -> None:
        """Inputs are lent read-only and stay what they were."""
        for operator, spec, planes, pts in self._each():
            before = [plane.copy() for plane in planes]
            run_whole(operator, planes, pts, spec)
            for plane, copy in zip(planes, before, strict=True):
                np.testing.assert_array_equal(plane, copy)

    def test_one_instance_serves_two_threads(self) -> None:
        """Instances hold parameters only."""
        for operator, spec, planes, pts in self._each():
            alone = run_whole(operator, planes, pts, spec)
            with ThreadPoolExecutor(2) as pool:
                runs = [pool.submit(run_split, operator, planes, pts, spec, size=2) for _ in range(2)]
            for run in runs:
                assert_same(run.result(), alone)

    def test_an_empty_stream_gives_empty_results(self) -> None:
        """No frames in, no frames, windows, records or spans out."""
        for operator, spec, planes, pts in self._each():
            results = run_whole(operator, [plane[:0] for plane in planes], pts[:0], spec)
            assert all(len(result) == 0 for result in results.values())

    def test_the_contract_depends_on_parameters_and_inputs_only(self) -> None:
        """Asking twice, or a copy in another process, gives the same answer."""
        for operator, spec, _, _ in self._each():
            copy = pickle.loads(pickle.dumps(operator))
            assert copy == operator
            assert operator.configure((spec,)) == operator.configure((spec,)) == copy.configure((spec,))

    def test_wrong_parameters_are_refused_by_name_before_the_first_frame(self) -> None:
        """The sentence names the parameter and what was got."""
        for parameters in self.refused:
            with pytest.raises(PipelineError) as caught:
                type(self.operators[0])(**parameters).configure((self.specs[0],))
            assert "got" in str(caught.value)
            assert any(name in str(caught.value) for name in parameters)

    def test_records_are_refused_where_frames_are_needed(self) -> None:
        """Stages that do not fit are told apart before the first frame."""
        with pytest.raises(PipelineError):
            self.operators[0].configure((RecordSpec(()),))

    def test_the_docstring_says_shapes_dtype_and_halo(self) -> None:
        """Users learn from `hyperframes operators NAME` what goes in and what comes out."""
        kind = type(self.operators[0])
        text = (kind.__doc__ or "").lower()
        assert hasattr(kind, "__dataclass_fields__"), "parameters are the fields of a dataclass"
        assert kind.name
        assert kind.version >= 1
        missing = [word for word in ("shape", "dtype", "halo") if word not in text]
        assert not missing, f"the docstring of {kind.__name__} says nothing about: {', '.join(missing)}"
