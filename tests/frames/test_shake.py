"""What shaking does to events, and how much of it can be taken back: ego-motion is injected and found again."""

import numpy as np
import pytest

from hyperframes.errors import FrameError
from hyperframes.frames import Events, shake, steadied

SENSOR = (48, 64)


def recorded(seed=0, slices=40, each=400):
    """Events of the edges of things that stand still, and of one that moves to the right; 5 ms a slice."""
    random = np.random.default_rng(seed)
    edges = np.stack([random.integers(8, 40, 90), random.integers(8, 56, 90)], 1)
    parts = []
    for i in range(slices):
        still = edges[random.integers(0, 90, each)]
        moving = np.stack([random.integers(20, 26, each // 8), np.full(each // 8, 10 + i)], 1)
        place = np.concatenate([still, moving])
        t = 5_000 * i + np.sort(random.integers(0, 5_000, len(place)))
        parts.append(Events.of(t, place[:, 1], place[:, 0], random.integers(0, 2, len(place)), SENSOR))
    return Events.concatenate(parts)


def shaken(events, offsets):
    """Inject ego-motion: every slice of 5 ms is moved down and to the right."""
    moved = offsets[(events.t - events.t.min()) // 5_000]
    return Events.of(events.t, events.x + moved[:, 1], events.y + moved[:, 0], events.p, events.sensor)


def swing(slices, pixels):
    phase = np.arange(slices) * 1.1
    return np.rint(pixels * np.stack([np.sin(phase), np.cos(1.7 * phase)], 1)).astype(np.int64)


@pytest.mark.requirement("D126")
@pytest.mark.parametrize("pixels", [0, 1, 4])
def test_injected_shake_is_found_and_taken_back(pixels):
    events, offsets = recorded(), swing(40, pixels)
    found = shake(shaken(events, offsets))
    np.testing.assert_array_equal(found - found[0], offsets - offsets[0])
    back = steadied(shaken(events, offsets))
    assert len(back) == len(events)
    gap = np.stack([back.y.astype(int) - events.y, back.x.astype(int) - events.x], 1)
    assert (gap == gap[0]).all()  # one place for all of them: the usual one
    np.testing.assert_array_equal(back.t, events.t)


@pytest.mark.requirement("D126")
def test_noise_and_empty_slices_do_not_hide_the_shake():
    random = np.random.default_rng(1)
    events, offsets = recorded(), swing(40, 3)
    noise = Events.of(random.integers(0, 200_000, 4_000), random.integers(0, 64, 4_000), random.integers(0, 48, 4_000),
                      random.integers(0, 2, 4_000), SENSOR)  # fmt: skip
    both = Events.concatenate([shaken(events, offsets), noise])
    order = np.argsort(both.t, kind="stable")
    both = both[order]
    both = both[(both.t < 50_000) | (both.t >= 60_000)]
    both.t[0] = 0
    found = shake(both)
    told = np.ones(40, bool)
    told[10:12] = False
    np.testing.assert_array_equal((found - found[0])[told], (offsets - offsets[0])[told])
    np.testing.assert_array_equal(found[10], found[9])


def test_little_is_asked_of_events():
    assert shake(Events.of([], [], [], [], SENSOR)).shape == (0, 2)
    assert len(steadied(Events.of([], [], [], [], SENSOR))) == 0
    assert steadied(Events.of([5], [63], [0], [1], SENSOR)).x.tolist() == [63]
    with pytest.raises(FrameError, match="needs the size of the sensor"):
        shake(Events.of([5], [1], [1], [1]))


@pytest.mark.media
@pytest.mark.requirement("D126")
def test_shake_injected_into_real_recordings_is_found(media):
    """The camera of these digits moves by itself; what is injected comes on top of that."""
    from hyperframes.media.event_files import open_events_file

    near = []
    for path in sorted((media / "events/nmnist").glob("*.bs2"))[:8]:
        events = open_events_file(path).read()
        wider = Events.of(events.t, events.x + 10, events.y + 10, events.p, (54, 54))
        offsets = swing(int((events.t.max() - events.t.min()) // 5_000) + 1, 3)
        told = np.diff(shake(shaken(wider, offsets)) - shake(wider), axis=0)
        near.append((np.abs(told - np.diff(offsets, axis=0)).max(1) <= 1).mean())
    assert np.mean(near) > 0.8
