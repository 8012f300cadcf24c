"""How much a frame moves, and how different it is, against a loop over its pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import activity as slow

import hyperframes as hf
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.activity import MEASURES, Activity
from hyperframes.testing.operators import random_planes, run_whole


def rows_of(planes, spec, **parameters):
    return run_whole(Activity(**parameters), planes, np.arange(len(planes[0])), spec)["measures"].data


def row_of(before, after):
    spec = FrameSpec.picture(*before.shape, "gray")
    return dict(zip(MEASURES, rows_of([np.stack([before, after])], spec)[1].tolist(), strict=True))


@pytest.mark.requirement("C40")
@pytest.mark.requirement("W5")
@given(st.sampled_from([(1, 1), (2, 5), (9, 11), (16, 3)]), st.integers(0, 10_000))
def test_rows_are_those_of_a_loop_over_pixels(shape, seed):
    spec = FrameSpec.picture(*shape, "gray")
    (plane,) = random_planes(spec, 3, seed)
    got = rows_of([plane], spec)
    for t in range(3):
        expected = slow.measures(plane[max(t - 1, 0)], plane[t])
        for name, value in expected.items():
            assert got[t, MEASURES.index(name)] == pytest.approx(value, rel=1e-4, abs=1e-4), name


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_likeness_is_the_correlation_of_cells(seed, strength):
    random = np.random.default_rng(seed)
    before = random.integers(0, 256, (32, 48), np.uint8)
    after = np.clip(before + random.integers(-strength - 1, strength + 2, before.shape), 0, 255).astype(np.uint8)
    assert row_of(before, after)["likeness"] == pytest.approx(slow.likeness(before, after), abs=1e-5)


@pytest.mark.requirement("C40")
def test_texture_alone_is_no_activity_and_motion_without_texture_is():
    """The first measure of activity took texture for motion."""
    random = np.random.default_rng(3)
    texture = random.integers(0, 256, (64, 64), np.uint8)
    y, x = np.mgrid[:64, :64]
    disc = [(200 * np.exp(-((x - c) ** 2 + (y - 32) ** 2) / 128)).astype(np.uint8) for c in (24, 25)]
    still, moving = row_of(texture, texture), row_of(*disc)
    flow = [name for name in MEASURES if name.startswith("flow_") and name != "flow_0"]
    assert sum(still[name] for name in flow) == 0
    assert sum(moving[name] for name in flow) > 0.05


def test_noise_is_told_from_what_hardly_changes():
    random = np.random.default_rng(1)
    scene = np.full((120, 160), 128.0)
    noisy = [np.clip(np.rint(scene + random.normal(0, 3, scene.shape)), 0, 255).astype(np.uint8) for _ in range(2)]
    noisy[1][:20] += 50  # a sixth of the picture moves
    assert row_of(*noisy)["noise"] == pytest.approx(3 * 2**0.5, rel=0.4)


def test_pictures_are_made_small_by_their_longer_side_and_deep_ones_shallow():
    spec = FrameSpec.picture(90, 300, "yuv420p10le")
    luma = np.full((2, 90, 300), 1023, np.uint16)
    planes = [luma, *(np.zeros((2, *shape), np.uint16) for shape in spec.shapes[1:])]
    small = run_whole(Activity(), planes, np.arange(2), spec)["luma"]
    assert small.planes[0].shape == (2, 48, 160)
    assert (small.data == 255).all()
    tiny = run_whole(Activity(), [np.zeros((1, 1, 5), np.uint8)], np.arange(1), FrameSpec.picture(1, 5, "gray"))
    assert tiny["luma"].data.shape == (1, 1, 5)


def test_colour_is_converted_and_rows_have_names():
    picture = np.zeros((3, 8, 8, 3), np.uint8)
    picture[1:] = 255
    rows = hf.run(picture, Activity()).value
    assert rows.spec.names == MEASURES
    assert rows.data[:, 0].tolist() == [0, 255, 255]
    assert rows.data[:, 2].tolist() == [0, 255, 0]


def test_arrays_that_are_no_pictures_are_refused():
    with pytest.raises(PipelineError, match="works on pictures with a luma plane: got array"):
        Activity().configure((FrameSpec.array((5,), "u1"),))
