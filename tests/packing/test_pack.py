"""One packer for files and cameras: seals as frames arrive, copies each frame once, never grows."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hyperframes.errors import FrameError, SchedulingError
from hyperframes.frames import Frame, FrameSpec
from hyperframes.packing import Boundary, Halo, Packer, SlabPool, core_ranges, pack, pad, slab_capacity, unpack, view

SPEC = FrameSpec.picture(4, 6, "yuv420p")


def frame(t):
    planes = [np.full(shape, (t + 7 * i) % 256, np.uint8) for i, shape in enumerate(SPEC.shapes)]
    return Frame(planes, pts=10 * t, index=t, spec=SPEC, duration=10)


def packer_for(size, halo, slabs=64, **options):
    return Packer(SPEC, size, halo, SlabPool(SPEC, slab_capacity(size, halo), slabs), **options)


def fill(packer, frames):
    for one in frames:
        for target, plane in zip(packer.slot(), one.planes, strict=True):
            np.copyto(target, plane)
        sealed = packer.push(one.pts, one.duration)
        if sealed is not None:
            yield sealed
        if not packer.wants_frames:
            break
    yield from packer.finish()


@pytest.mark.requirement("A54")
@pytest.mark.requirement("A8")
@pytest.mark.requirement("A18")
@pytest.mark.requirement("A43")
@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 8), st.integers(0, 8))
def test_what_is_sealed_is_what_w1_says_and_nothing_is_copied_or_lost(count, size, before, after):
    halo = Halo(before, after)
    packer = packer_for(size, halo, plan_id="clip")
    seen = []
    for h, place in zip(fill(packer, map(frame, range(count))), core_ranges(count, size, halo), strict=True):
        header = h.header
        assert (header.core, header.read, header.sequence) == (place.core, place.read, place.index)
        assert header.id == f"clip[{place.core[0]},{place.core[1]})"
        assert header.end == (place.core[1] == count)
        assert header.frame_ids.tolist() == list(range(*place.read))
        assert header.pts.tolist() == [10 * t for t in range(*place.read)]
        for i, plane in enumerate(h.planes):
            assert plane.flags.c_contiguous
            assert not plane.flags.writeable
            assert plane[:, 0, 0].tolist() == [(t + 7 * i) % 256 for t in range(*place.read)]
        seen += header.frame_ids[h.core].tolist()
    assert seen == list(range(count))


@given(st.integers(1, 12), st.integers(0, 5), st.integers(0, 5), st.integers(1, 4), st.randoms())
def test_a_pool_of_as_many_slabs_as_hyperframes_in_flight_never_runs_dry(size, before, after, in_flight, random):
    """Whoever fills waits for a token per hyperframe, as the driver does; released in any order."""
    halo = Halo(before, after)
    pool = SlabPool(SPEC, slab_capacity(size, halo), in_flight)
    packer = Packer(SPEC, size, halo, pool)
    alive, granted = [], in_flight
    for t in range(80):
        while packer.num_sealed == granted:
            victim = alive.pop(random.randrange(len(alive)))
            pool.release(victim.slab)
            granted += 1
        packer.slot()
        sealed = packer.push(t)
        if sealed is not None:
            alive.append(sealed)
    for left in packer.finish() + alive:
        pool.release(left.slab)
    assert pool.leased == 0


@pytest.mark.requirement("A101")
def test_halo_frames_are_copied_once_at_the_end_of_a_slab_and_not_read_again():
    halo = Halo(2, 2)
    packer = packer_for(8, halo)
    asked = []
    sealed = list(fill(packer, (asked.append(t) or frame(t) for t in range(32))))
    assert asked == list(range(32))
    assert len({id(h.slab) for h in sealed}) == len(sealed) == 4


@pytest.mark.requirement("A100")
def test_a_core_is_held_back_until_it_is_known_whether_the_stream_goes_on():
    packer = packer_for(2, Halo())
    packer.slot()
    assert packer.push(0) is None
    packer.slot()
    assert packer.push(1) is None
    packer.slot()
    first = packer.push(2)
    assert first.header.core == (0, 2)
    assert not first.header.end
    (last,) = packer.finish()
    assert last.header.core == (2, 3)
    assert last.header.end
    assert last.header.stream_length == 3


@pytest.mark.parametrize("cores", [(3, 9), (0, 4), (5, None), (8, 30)])
def test_a_range_owns_only_its_cores_and_reads_halo_outside(cores):
    halo = Halo(2, 1)
    start, stop = cores[0], 12 if cores[1] is None else min(cores[1], 12)
    first = max(0, start - 2)
    packer = packer_for(3, halo, first_frame=first, cores=cores)
    owned = []
    for h in fill(packer, map(frame, range(first, 12))):
        owned += h.header.frame_ids[h.core].tolist()
        assert h.header.read[0] == max(first, h.header.core[0] - 2)
    assert owned == list(range(start, stop))


@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
def test_viewed_arrays_seal_like_pushed_frames_without_a_copy(count, size, before, after):
    halo = Halo(before, after)
    array = np.arange(count * 3).reshape(count, 3)
    spec = FrameSpec.array((3,), array.dtype)
    for h, place in zip(
        view((array,), np.arange(count), spec, size, halo), core_ranges(count, size, halo), strict=True
    ):
        assert (h.header.core, h.header.read) == (place.core, place.read)
        assert np.shares_memory(h.data, array)
        assert not h.data.flags.writeable
    assert array.flags.writeable


def test_unpacking_is_the_inverse_of_packing():
    frames = [frame(t) for t in range(7)]
    out = list(unpack(pack(frames, halo=(2, 1))))
    assert [f.index for f in out] == [2, 3, 4, 5]
    for got, given_ in zip(out, frames[2:6], strict=True):
        assert (got.pts, got.duration) == (given_.pts, given_.duration)
        assert all(np.array_equal(a, b) for a, b in zip(got.planes, given_.planes, strict=True))


def test_padding_stands_frames_in_at_both_ends_and_marks_them():
    h = pad(pack([frame(t) for t in range(3)]), Halo(2, 1), Boundary.parse("reflect"))
    assert h.header.frame_ids.tolist() == [2, 1, 0, 1, 2, 1]
    assert h.mask.tolist() == [False, False, True, True, True, False]
    assert (h.header.pad_before, h.header.pad_after, h.core) == (2, 1, slice(2, 5))
    assert h.planes[0][:, 0, 0].tolist() == [2, 1, 0, 1, 2, 1]


def test_data_of_several_planes_names_the_way_to_one():
    with pytest.raises(FrameError, match=r"yuv420p frames have 3 planes and no single array: use \.planes") as caught:
        _ = pack([frame(0)]).data
    assert "--pixel-format rgb24" in caught.value.hint


def test_frames_of_several_shapes_are_refused():
    frames = [Frame(np.zeros((4, 6, 3), np.uint8)), Frame(np.zeros((4, 6), np.uint8))]
    with pytest.raises(
        FrameError, match=r"must have one shape: expected \(4, 6, 3\) as in frame 0, got \(4, 6\) in frame 1"
    ):
        pack(frames)


def test_frames_out_of_order_are_refused():
    with pytest.raises(
        FrameError, match="frames must be in order of time: expected pts of at least 20, got 10 in frame 1"
    ):
        pack([frame(2), frame(1)])


def test_too_few_frames_for_the_halo_are_refused():
    with pytest.raises(FrameError, match="owns at least one frame: expected more than 4 frames, got 3"):
        pack([frame(t) for t in range(3)], halo=2)


def test_slabs_that_were_touched_are_the_ones_given_out_first():
    pool = SlabPool(SPEC, 4, 3, shared=False)
    pool.touch(2)
    assert (pool.leased, pool._made) == (0, 2)
    first, second = pool.lease(), pool.lease()
    assert pool._made == 2
    assert not any(plane.any() for slab in (first, second) for plane in slab.planes)
    pool.touch(9)  # all that are left: one
    assert (pool.leased, pool._made) == (2, 3)


def test_slabs_of_one_process_and_shared_ones_hold_the_same_frames():
    for shared in (True, False):
        pool = SlabPool(SPEC, 4, 1, shared=shared)
        slab = pool.lease()
        assert (slab.fd >= 0) == shared
        assert [plane.shape for plane in slab.planes] == [(4, *shape) for shape in SPEC.shapes]
        for plane in slab.planes:
            assert not shared or not plane.any()  # fresh pages; memory of the process may have been used before
            plane[:] = 7
        pool.release(slab)
        assert all((plane == 7).all() for plane in pool.lease().planes)  # reused, not cleared


def test_a_pool_gives_out_no_more_than_it_has_and_takes_back_no_more_than_it_gave():
    pool = SlabPool(SPEC, 4, 1)
    slab = pool.lease()
    with pytest.raises(SchedulingError, match="no free slab: all 1 are leased"):
        pool.lease()
    pool.release(slab)
    assert pool.lease() is slab
    pool.release(slab)
    with pytest.raises(SchedulingError, match="released more often than it was leased"):
        pool.release(slab)
