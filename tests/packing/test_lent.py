"""Frames that stay where their source put them: sealed as by the packer that copies, nothing copied."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hyperframes.errors import FrameError
from hyperframes.frames import FrameSpec
from hyperframes.packing import Halo, LentPacker, LentPlane, Packer, SlabPool, slab_capacity

SPEC = FrameSpec.picture(4, 6, "yuv420p")


def planes_of(t):
    return tuple(np.full(shape, (t + 7 * i) % 256, np.uint8) for i, shape in enumerate(SPEC.shapes))


def copied(size, halo, count, **told):
    packer = Packer(SPEC, size, halo, SlabPool(SPEC, slab_capacity(size, halo), 64), **told)
    for t in range(packer.num_frames, count):
        for target, plane in zip(packer.slot(), planes_of(t), strict=True):
            np.copyto(target, plane)
        yield packer.push(10 * t, 10)
    yield from packer.finish()


def lent(size, halo, count, **told):
    packer = LentPacker(SPEC, size, halo, **told)
    for t in range(packer.num_frames, count):
        packer.take(planes_of(t), t)
        yield packer.push(10 * t, 10)
    yield from packer.finish()


def told_by(hyperframe):
    header = hyperframe.header
    arrays = [header.frame_ids, header.pts, header.durations, hyperframe.mask]
    return header.core, header.read, header.end, header.stream_length, hyperframe.core, [a.tolist() for a in arrays]


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 8), st.integers(0, 8), st.integers(0, 10))
def test_lent_frames_are_sealed_as_copied_ones_are(count, size, before, after, first):
    halo, told = Halo(before, after), {"first_frame": first, "cores": (first, None)}
    pairs = zip(copied(size, halo, first + count, **told), lent(size, halo, first + count, **told), strict=True)
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is None:
            continue
        assert told_by(one) == told_by(other)
        assert other.planes == ()
        for plane, held in zip(one.planes, other.lent, strict=True):
            np.testing.assert_array_equal(plane, np.stack(held.frames))


def test_halo_frames_are_the_same_memory_in_both_neighbours_and_nothing_is_kept_longer():
    sealed = [h for h in lent(3, Halo(1, 1), 9) if h is not None]
    first, second = sealed[0].lent[0], sealed[1].lent[0]
    assert first.addresses[-2:].tolist() == second.addresses[:2].tolist()
    packer = LentPacker(SPEC, 3, Halo(1, 1))
    for t in range(40):
        packer.take(planes_of(t), t)
        packer.push(10 * t)
    assert len(packer._held) <= 3 + 2


def test_a_hyperframe_lets_go_of_frames_that_nobody_reads_again():
    hyperframe = next(h for h in lent(3, Halo(1, 1), 9) if h is not None)
    hyperframe.let_go()
    assert hyperframe.lent == ()
    assert len(hyperframe) == 4


def test_frames_of_another_shape_are_refused():
    with pytest.raises(
        FrameError, match=r"all frames of film must have one shape: expected \(4, 6\), got \(4, 8\) in frame 5"
    ):
        LentPacker(SPEC, 3, Halo(), stream="film").take((np.zeros((4, 8), np.uint8), *planes_of(0)[1:]), 5)


def test_rows_with_gaps_between_their_samples_are_copied():
    wide = np.arange(48, dtype=np.uint8).reshape(4, 12)[:, ::2]
    packer = LentPacker(SPEC, 1, Halo())
    packer.take((wide, *planes_of(0)[1:]), 0)
    assert packer._held[0][0].flags.c_contiguous
    np.testing.assert_array_equal(packer._held[0][0], wide)


def test_a_plane_tells_where_its_frames_lie():
    whole, padded = np.zeros((4, 6), np.uint16), np.zeros((4, 8), np.uint16)[:, :6]
    plane = LentPlane.of((whole, padded))
    assert (plane.num_samples, plane.row_samples, plane.steps.tolist()) == (24, 6, [12, 16])
    assert not plane.in_one_piece
    twice = plane.taken(np.array([0, 0]))
    assert twice.in_one_piece
    assert twice.addresses.tolist() == [plane.addresses[0]] * 2
