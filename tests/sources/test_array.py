"""Arrays in memory, mapped and stored: what is viewed, what time they have, and what is refused in which words."""

import contextlib
import mmap
from fractions import Fraction

import numpy as np
import psutil
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.errors import FrameError, SourceError
from hyperframes.frames import Clip, FrameSpec
from hyperframes.sources import ArraySource, open_source
from hyperframes.sources.array import exact_rate

PICTURES = np.arange(4 * 3 * 5 * 3, dtype=np.uint8).reshape(4, 3, 5, 3)


def test_an_array_is_viewed_not_copied():
    (plane,), _ = ArraySource(PICTURES).arrays()
    assert np.shares_memory(plane, PICTURES)


@pytest.mark.requirement("A56")
def test_an_npy_file_is_mapped_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", PICTURES)
    with open_source(tmp_path / "x.npy") as source:
        (plane,), _ = source.arrays()
    base = plane
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj, mmap.mmap)
    np.testing.assert_array_equal(plane, PICTURES)


@pytest.mark.requirement("A56")
@pytest.mark.parametrize("through", ["read", "hyperframes", "engine"])
def test_memory_of_a_mapped_file_is_given_back_as_frames_pass(tmp_path, through):
    frames, size = 96, 1 << 20
    with (tmp_path / "x.raw").open("wb") as file:
        for t in range(frames):
            file.write(bytes([t]) * size)
    process, seen = psutil.Process(), []
    with open_source(f"{tmp_path}/x.raw?shape=1024,1024") as source:
        if through == "read":
            for frame in source.read():
                assert (frame.data == frame.index).all()
                seen.append(process.memory_info().rss)
        elif through == "hyperframes":
            for h in source.hyperframes(size=4, halo=1):
                assert h.data[h.core].max() == h.header.core[1] - 1
                seen.append(process.memory_info().rss)
        else:
            hf.run(source, "temporal_mean:radius=1", to=lambda clip: seen.append(process.memory_info().rss), size=4)
    assert len(seen) >= 24
    assert max(seen) - seen[0] < 40 << 20


def test_an_array_that_is_not_contiguous_or_of_another_byte_order_is_copied_a_hyperframe_at_a_time():
    for array in (PICTURES[:, ::-1], np.asfortranarray(PICTURES), PICTURES.astype(">u2")):
        source = ArraySource(array)
        assert source.arrays() is None
        assert source.spec.dtype.isnative
        assert hf.run(source, "temporal_mean:radius=1", size=3).array.tobytes() == (
            hf.run(np.ascontiguousarray(array, source.spec.dtype), "temporal_mean:radius=1", size=3).array.tobytes()
        )
        assert source.frames([2, 0]).data.tolist() == array[[2, 0]].tolist()
        assert all(plane.flags.c_contiguous for h in source.hyperframes(size=2, halo=1) for plane in h.planes)
        assert source.identity() == ArraySource(array.copy()).identity()


def test_one_frame_a_thousand_million_times_takes_no_memory():
    endless = np.broadcast_to(PICTURES[:1], (10**9, *PICTURES.shape[1:]))
    source = ArraySource(endless)
    assert source.num_frames == 10**9
    result = hf.run(source, "temporal_mean:radius=1", range=(10**8, 10**8 + 5), size=2)
    assert result.array.tobytes() == endless[:5].tobytes()


@pytest.mark.parametrize(("rate", "end"), [(None, "0.400"), (5, "2.000")])
def test_a_time_after_the_last_frame_is_refused_with_the_range(rate, end):
    source = ArraySource(PICTURES[:1].repeat(10, 0), rate=rate)
    assert source.at(seconds=float(end) - 0.001).index.tolist() == [9]
    with pytest.raises(FrameError, match=rf"shows frames from 0\.000 to {end} s: no frame is on screen at {end} s"):
        source.at(seconds=[0, float(end)])
    with pytest.raises(FrameError, match=r"no frame is on screen at -0\.100 s"):
        source.at(seconds=-0.1)
    with pytest.raises(FrameError, match=r"from 0\.000 to 0\.000 s"):
        ArraySource(PICTURES[:0]).at(seconds=0)


def test_pictures_without_time_come_at_25_a_second_and_other_arrays_one_a_second():
    assert ArraySource(PICTURES).spec.rate == 25
    assert ArraySource(PICTURES).spec.time_base == Fraction(1, 25)
    assert ArraySource(np.zeros((4, 3))).spec.rate is None
    assert ArraySource(np.zeros((4, 3))).spec.time_base == 1


def test_rate_and_times_are_exact():
    source = ArraySource(PICTURES, rate="30000/1001")
    assert source.spec.time_base == Fraction(1001, 30000)
    source = ArraySource(PICTURES, pts=[0, 40, 90, 91], time_base="1/1000")
    assert source.times().tolist() == [0, 40, 90, 91]
    assert source.spec.rate is None
    assert source.at(seconds=0.05).index.tolist() == [1]


def test_a_clip_is_a_source_with_its_times():
    spec = FrameSpec.picture(3, 5, "rgb24", time_base=Fraction(1, 90000))
    clip = Clip((PICTURES,), np.array([10, 20, 30, 45]), np.arange(4), spec)
    source = open_source(clip)
    assert source.spec == spec
    assert source.times().tolist() == [10, 20, 30, 45]


def test_an_empty_array_has_no_frames(tmp_path):
    np.save(tmp_path / "x.npy", PICTURES[:0])
    (tmp_path / "x.raw").write_bytes(b"")
    for source in (
        ArraySource(PICTURES[:0]),
        open_source(tmp_path / "x.npy"),
        open_source(f"{tmp_path}/x.raw?shape=3,5,3"),
    ):
        assert source.count() == 0
        assert list(source.read()) == []
        assert source.spec.shapes == ((3, 5, 3),)


def test_identity_tells_contents_apart():
    changed = PICTURES.copy()
    changed[1, 2, 3, 0] += 1
    assert ArraySource(PICTURES).identity() == ArraySource(PICTURES.copy()).identity()
    assert ArraySource(PICTURES).identity() != ArraySource(changed).identity()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ArraySource(np.float64(3)), "array must have frames along its first axis: got a single number"),
        (lambda: ArraySource(np.array([object()])), "array must hold numbers: got dtype object"),
        (
            lambda: ArraySource((PICTURES, PICTURES[:2])),
            r"all planes of array must hold the same number of frames: expected 4, got \[4, 2\]",
        ),
        (
            lambda: ArraySource(PICTURES, pixel_format="gray"),
            r"gray frames have planes \(\(3, 5\),\) of uint8: got \(\(3, 5, 3\),\) of uint8",
        ),
        (
            lambda: ArraySource((np.zeros((2, 3)), np.zeros((2, 3), "f4"))),
            r"planes of array must be \(\(3,\), \(3,\)\) of float64: got \(\(3,\), \(3,\)\) of float32, float64",
        ),
        (lambda: ArraySource(PICTURES, pts=[0.5, 1, 2, 3]), "pts of array must be integers: got float64"),
        (
            lambda: ArraySource(PICTURES, pts=[0, 1]),
            r"pts of array must have one time per frame: expected shape \(4,\), got \(2,\)",
        ),
        (
            lambda: ArraySource(PICTURES, pts=[0, 5, 3, 4]),
            "pts of array must ascend: expected at least 5, got 3 in frame 2",
        ),
        (lambda: ArraySource(PICTURES).frames([-1]), "array has no frame -1: it has 4 frames, counted from 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(FrameError, match=message):
        make()


@pytest.mark.parametrize("rate", ["fast", 0, -3, "1/0", float("nan"), float("inf")])
def test_a_rate_is_a_positive_number(rate):
    with pytest.raises(SourceError, match=r"a rate is a positive number of frames a second: got") as caught:
        exact_rate(rate)
    assert caught.value.hint == "Write 25, 29.97 or 30000/1001."


# .npy ----------------------------------------------------------------------------------------------------------------


def refused(path, message, hint=""):
    with pytest.raises(SourceError, match=message) as caught:
        open_source(path)
    assert hint in (caught.value.hint or "")


def test_npy_in_fortran_order_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(PICTURES))
    refused(tmp_path / "x.npy", "is stored in Fortran order", "ascontiguousarray")


def test_npy_of_objects_is_refused_without_unpickling(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}]), allow_pickle=True)
    refused(tmp_path / "x.npy", "must hold numbers: got dtype object", "one plain numeric array")


def test_npy_of_one_number_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.float64(1))
    refused(tmp_path / "x.npy", "holds one number: expected frames along the first axis")


def test_npy_that_is_cut_off_is_refused_with_the_number_of_frames_it_has(tmp_path):
    np.save(tmp_path / "x.npy", PICTURES)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data[:-50])
    refused(tmp_path / "x.npy", "x.npy is cut off: its header says 4 frames, it holds 2", "again")


@given(st.integers(0, 127), st.integers(0, 255))
def test_a_damaged_npy_header_is_an_error_or_harmless(tmp_path, position, value):
    np.save(tmp_path / "x.npy", PICTURES)
    data = bytearray((tmp_path / "x.npy").read_bytes())
    data[position] = value
    (tmp_path / "y.npy").write_bytes(data)
    with contextlib.suppress(SourceError, FrameError), open_source(tmp_path / "y.npy") as source:
        assert source.count() == sum(1 for _ in source.read())


@pytest.mark.parametrize("data", [b"", b"hello", b"\x93NUMPY", b"\x93NUMPY\x09\x00\x10\x00"])
def test_what_is_no_npy_is_refused(tmp_path, data):
    (tmp_path / "x.npy").write_bytes(data)
    refused(tmp_path / "x.npy", "x.npy is no NumPy array file: ", "FILE.raw?shape=")


# Raw -----------------------------------------------------------------------------------------------------------------


def test_raw_samples_take_shape_dtype_offset_and_rate_from_the_location(tmp_path):
    (tmp_path / "x.raw").write_bytes(b"head" + PICTURES.astype("<u2").tobytes())
    with open_source(f"{tmp_path}/x.raw?shape=3,5,3&dtype=<u2&offset=4&rate=50") as source:
        assert source.spec.rate == 50
        np.testing.assert_array_equal(source.frames(range(4)).data, PICTURES)
    with open_source(f"{tmp_path}/x.raw?shape=&dtype=u1") as numbers:
        assert numbers.spec.shapes == ((),)
        assert numbers.count() == 4 + PICTURES.size * 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("shape=7,3,3", r"holds 180 bytes, no multiple of a frame's 63 \(\(7, 3, 3\) of uint8\)"),
        ("shape=3,5,3&dtype=uint9", "has no dtype 'uint9'"),
        ("shape=3,x", r"a shape is positive sides with commas between: got '3,x'"),
        ("shape=0,5", r"a shape is positive sides with commas between: got '0,5'"),
        ("dtype=uint8", "needs the shape of a frame: expected shape, dtype, offset"),
        ("shape=3,5,3&colour=red", "does not know 'colour'"),
        ("shape=3,5,3&offset=1000", "no multiple of a frame's 45"),
        ("shape=3,5,3&offset=x", "offset of .* is a number of bytes: got 'x'"),
    ],
)
def test_raw_samples_that_do_not_fit_are_refused(tmp_path, query, message):
    PICTURES.tofile(tmp_path / "x.raw")
    refused(f"{tmp_path}/x.raw?{query}", message)


# Zarr ----------------------------------------------------------------------------------------------------------------


def test_zarr_is_read_chunk_by_chunk(tmp_path, monkeypatch):
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(10, 2), chunks=(4, 2), dtype="i4")
    stored[:] = np.arange(20).reshape(10, 2)
    runs = []
    taken = zarr.Array.__getitem__
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda self, key: runs.append(key) or taken(self, key))
    with open_source(tmp_path / "x.zarr") as source:
        assert [frame.data.tolist() for frame in source.read(2)] == np.arange(20).reshape(10, 2)[2:].tolist()
    assert runs == [slice(2, 4), slice(4, 8), slice(8, 10)]


def test_older_zarr_is_read_too(tmp_path):
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(3, 2), chunks=(2, 2), dtype=">i4", zarr_format=2)
    stored[:] = np.arange(6).reshape(3, 2)
    with open_source(tmp_path / "x.zarr") as source:
        assert source.frames([2]).data.tolist() == [[4, 5]]


def test_a_zarr_group_that_is_none_of_planes_is_refused_with_what_it_holds(tmp_path):
    group = zarr.create_group(tmp_path / "x.zarr")
    group.create_array("depth", shape=(3, 2), dtype="f4")
    refused(tmp_path / "x.zarr", "is a group, not an array: it holds 'depth'", "x.zarr/depth")
    assert open_source(tmp_path / "x.zarr" / "depth").count() == 3


def test_damaged_zarr_is_an_error(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    refused(tmp_path / "x.zarr", "x.zarr is no zarr array: ")
    stored = zarr.create_array(tmp_path / "y.zarr", shape=(3, 2), chunks=(3, 2), dtype="f8")
    stored[:] = 1
    (tmp_path / "y.zarr" / "c" / "0" / "0").write_bytes(b"junk")
    with open_source(tmp_path / "y.zarr") as source, pytest.raises(SourceError, match="cannot read frames 0 to 3 of"):
        list(source.read())


def test_times_that_only_count_take_no_memory_and_are_what_they_count():
    source = ArraySource(np.zeros((1000, 1)))
    _, pts = source.arrays()
    assert not isinstance(pts, np.ndarray)
    assert (len(pts), pts[990:2000].tolist(), pts[-3:-1].tolist()) == (1000, list(range(990, 1000)), [997, 998])
    np.testing.assert_array_equal(pts, np.arange(1000))
    assert source.times().dtype == np.int64
    assert source.frames([7, 3]).pts.tolist() == [7, 3]
    assert [frame.pts for frame in source.read(998)] == [998, 999]


def test_identities_of_large_arrays_tell_every_bit_and_every_place_apart():
    array = np.random.default_rng(5).integers(0, 256, (3, 100_003), np.uint8)
    known = {ArraySource(array).identity(), ArraySource(array[::-1].copy()).identity()}
    for place, bit in ((0, 1), (65_535, 128), (65_536, 1), (array.size - 1, 64)):
        changed = array.copy()
        changed.reshape(-1)[place] ^= bit
        known.add(ArraySource(changed).identity())
    assert len(known) == 6


def test_identities_tell_arrays_apart_that_differ_in_the_highest_bits_alone():
    array = np.random.default_rng(6).standard_normal((64, 128, 16))
    two_signs = array.copy()
    two_signs.reshape(-1)[[1000, 5000]] *= -1
    assert len({ArraySource(frames).identity() for frames in (array, -array, two_signs)}) == 3
    steps = np.zeros((2, 8192))
    known = {ArraySource(steps).identity()}
    for place in range(1, 200):  # powers of two differ in nothing but the exponent
        steps[:] = 0
        steps[0, [place, 2 * place]] = 2.0 ** (place % 7), 0.5
        known.add(ArraySource(steps).identity())
    assert len(known) == 200
