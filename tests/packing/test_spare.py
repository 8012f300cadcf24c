"""Maps of slabs that went: used again by an equal run, given back before another one, never while somebody looks."""

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.frames import FrameSpec
from hyperframes.packing import FrameRooms, Slab, result_array, spare_for
from hyperframes.packing import slab as slabs

SPEC = FrameSpec.array((64, 64), np.uint8)


@pytest.fixture(autouse=True)
def without_spare():
    spare_for("a test")
    spare_for("nothing")
    yield
    spare_for("another test")


def test_a_slab_takes_the_map_of_one_of_its_size_that_went():
    first = Slab(SPEC, 8, shared=False)
    place = first.planes[0].ctypes.data
    first.planes[0][...] = 7
    del first
    assert Slab(SPEC, 4, shared=False).planes[0].ctypes.data != place
    assert Slab(SPEC, 8, shared=False).planes[0].ctypes.data == place


def test_a_map_that_somebody_still_looks_at_is_not_used_again():
    first = Slab(SPEC, 8, shared=False)
    kept = first.planes[0][3, 5]
    kept[...] = 7
    del first
    Slab(SPEC, 8, shared=False).planes[0][...] = 9
    assert (kept == 7).all()
    assert len(slabs._spare) <= 1


@pytest.mark.parametrize("kept", ["a view", "a slot", "a memoryview", "bytes of another type"])
def test_whatever_way_somebody_looks_at_a_map_it_is_not_used_again(kept):
    slab = Slab(SPEC, 8, shared=False)
    slab.planes[0][...] = 7
    looks = {
        "a view": lambda slab: slab.planes[0][2:4, ::3],
        "a slot": lambda slab: slab.slot(5),
        "a memoryview": lambda slab: memoryview(slab.planes[0])[6:],
        "bytes of another type": lambda slab: np.frombuffer(slab.planes[0], np.uint32),
    }[kept](slab)
    before = np.asarray(looks).tobytes()
    del slab
    Slab(SPEC, 8, shared=False).planes[0][...] = 9
    assert np.asarray(looks).tobytes() == before


def test_a_run_of_another_kind_gives_back_what_the_last_one_left():
    frames = np.arange(40 * 64 * 64, dtype=np.uint8).reshape(40, 64, 64)
    for _ in range(2):
        result = hf.run(frames, "temporal_mean:radius=1", to="null:", size=4)
        assert result.frames == 40
        assert slabs._spare
    lengths = {len(memory) for memory in slabs._spare}
    hf.run(frames, "temporal_mean:radius=1", to="null:", size=5)
    assert lengths.isdisjoint(len(memory) for memory in slabs._spare)


def test_shared_maps_and_more_than_half_a_gigabyte_are_not_kept(monkeypatch):
    del (gone := [Slab(SPEC, 8, shared=True)])[:]
    assert gone == slabs._spare == []
    monkeypatch.setattr(slabs, "_SPARE_MOST", 8 * 64 * 64)
    del (gone := [Slab(SPEC, 8, shared=False), Slab(SPEC, 8, shared=False)])[:]
    assert [len(memory) for memory in slabs._spare] == [8 * 64 * 64]


def test_results_lie_where_those_lay_that_nobody_holds_any_more():
    shape, dtype = (8, 1 << 20), np.dtype(np.uint8)
    first = result_array(shape, dtype)
    place = first.ctypes.data
    part = first[3]
    del first
    second = result_array(shape, dtype)
    assert second.ctypes.data != place  # part of it is still held
    del part
    third = result_array((4, 1 << 20), np.dtype(np.uint16))
    assert third.ctypes.data == place
    assert third.flags.writeable
    third[:] = 7
    assert (third == 7).all()


def test_memory_of_results_that_two_runs_found_no_use_for_goes():
    del_me = result_array((8, 1 << 20), np.dtype(np.uint8))
    spare_for("one")
    del del_me
    assert slabs._spare_results
    spare_for("two")
    assert slabs._spare_results
    spare_for("three")
    assert not slabs._spare_results


def test_no_more_memory_of_results_is_kept_than_some(monkeypatch):
    monkeypatch.setattr(slabs, "_most_spare_results", lambda: 12 << 20)
    held = [result_array((8, 1 << 20), np.dtype(np.uint8)) for _ in range(3)]
    held.clear()
    assert len(slabs._spare_results) == 1
    too_large = result_array((13, 1 << 20), np.dtype(np.uint8))
    del too_large
    assert sum(len(memory) for _, memory in slabs._spare_results) <= 12 << 20


def test_small_results_are_the_allocators():
    assert result_array((10,), np.dtype(np.float64)).flags.owndata


def test_memory_of_single_frames_is_there_for_the_next_run_once_all_of_it_is_let_go():
    rooms = FrameRooms(FrameSpec.picture(64, 64, "rgb24"))
    held, other = rooms.lend()[0], rooms.lend()[0]
    places = {plane.ctypes.data for plane in (held, other)}
    del rooms, other
    assert not slabs._spare  # somebody may still lend what one holds
    del held
    assert len(slabs._spare) == 2
    again = FrameRooms(FrameSpec.picture(64, 64, "rgb24"))
    assert {again.lend()[0].ctypes.data, again.lend()[0].ctypes.data} <= places
