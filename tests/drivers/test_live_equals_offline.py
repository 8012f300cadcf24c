"""Live results are those of the offline engine on the same frames, whatever the size and however frames come."""

import numpy as np
import pytest
from tests.drivers.live_runs import Run, picture

import hyperframes as hf


@hf.operator(halo=(2, 1))
def around(frames):
    wide = frames.astype(np.float64)
    return wide[:-3] + 2 * wide[1:-2] + 4 * wide[2:-1] + 8 * wide[3:]


@hf.operator(dependency="sequential")
def running(frames, state):
    total = state.get("total", np.zeros(frames.shape[1:], np.float64))
    out = np.empty(frames.shape, np.float64)
    for i, frame in enumerate(frames):
        total = total * 0.5 + frame
        out[i] = total
    return out, {"total": total}


CHAINS = {
    "halo": [around],
    "two halos": [around, "temporal_median:radius=1"],
    "built in": ["temporal_mean:radius=3"],
    "sequential": [running],
    "sequential between halos": ["temporal_mean:radius=1", running, around],
    "background": ["background"],
}


def live_values(chain, frames, size, chunks):
    values = []

    def keep(result):
        value = next(iter(result.value.values())) if isinstance(result.value, dict) else result.value
        values.append((result.frame_id, np.array(value)))

    run = Run(packing=hf.Packing(size=size, timeout=10.0), operator=chain, on_result=keep, queue=100)
    for number, frame in enumerate(frames):
        run.live.feed("cam0", frame, frame_id=number, timestamp=number / 30)
        if number % chunks == 0:
            run.crew.advance(0.01)
    stats = run.stop()
    assert stats["delivered"] == len(frames)
    return values


@pytest.mark.requirement("B19", "A101")
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("name", CHAINS)
def test_live_results_equal_the_offline_engines_on_the_same_frames(name, size):
    frames = np.stack([picture(n * n + 3 * n) for n in range(21)])
    wanted = hf.run(frames, CHAINS[name]).array
    got = live_values(CHAINS[name], frames, size, chunks=2)
    assert [frame_id for frame_id, _ in got] == list(range(21))
    np.testing.assert_array_equal(np.stack([value for _, value in got]), wanted)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_live_spans_equal_the_offline_engines_the_last_one_included(size):
    levels = [0, 0, 0, 50, 50, 50, 50, 9, 80, 80, 80, 80, 80, 20, 20, 20]
    frames = np.stack([np.full((4, 4), level, np.uint8) for level in levels])
    wanted = hf.run(frames, "still_spans:min_frames=3").value
    found = []

    def keep(result):
        found.extend(zip(result.value["start"].tolist(), result.value["stop"].tolist(), strict=True))

    run = Run(
        packing=hf.Packing(size=size, timeout=10.0), operator="still_spans:min_frames=3", on_result=keep, queue=100
    )
    for number, frame in enumerate(frames):
        run.live.feed("cam0", frame, frame_id=100 + number, timestamp=number / 30)
        run.crew.advance(0.01)
    run.stop()
    assert found == list(zip(wanted.index.tolist(), wanted.stop.tolist(), strict=True))
