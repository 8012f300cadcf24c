"""Anchors of live frames: those of the file with the same frames, a fixed time later, with bounded look-back."""

import numpy as np
import pytest
from tests.drivers.live_runs import Run
from tests.semantic.scenes import footage, moving, panning, still

import hyperframes as hf
from hyperframes.operators.activity import Activity
from hyperframes.pipeline import Stage
from hyperframes.semantic import Anchors, find_anchors
from hyperframes.semantic.anchors import KINDS

FILM = footage(moving(1, 40, 2), panning(2, 30), still(3, 40), noise=1.0)
STAGES = [Stage("activity", Activity()), Stage("anchors", Anchors(), ("activity.measures", "activity.luma"))]


@pytest.mark.requirement("C37", "C57", "X15")
@pytest.mark.parametrize("size", [1, 7])
def test_live_anchors_are_those_of_the_same_frames_offline_and_come_a_fixed_time_later(size):
    offline = find_anchors(FILM)
    anchors, segments, weights, delays = [], [], [], []

    def keep(result):
        value = result.value
        anchors.extend(_rows(value["anchors"], "weight", "kind"))
        segments.extend(_rows(value["segments"], "cut", "static", "weight"))
        weights.extend(_rows(value["weights"], "weight"))
        delays.extend(arrived[0] - start for start, *_ in _rows(value["weights"], "weight"))

    arrived = [0]
    run = Run(packing=hf.Packing(size=size, timeout=10.0), operator=STAGES, on_result=keep, queue=100)
    for number, frame in enumerate(FILM):
        arrived[0] = number
        run.live.feed("cam0", frame, frame_id=number, timestamp=number / 25)
        run.crew.advance(0.01)
    run.stop()
    assert [(start, KINDS[kind]) for start, _, _, kind in anchors] == [
        (round(25 * a.seconds), a.kind) for a in offline.anchors
    ]
    assert [row[:2] for row in segments] == [(s.start, s.stop) for s in offline.segments]
    assert [row[0] for row in weights] == list(range(len(FILM)))
    np.testing.assert_array_equal([row[2] for row in weights], offline.weights)
    assert max(delays) <= Anchors().delay(None) + size  # results are handed over in the turn after


def _rows(columns, *names):
    """(start, stop, values by name) of each row; none where nothing became certain."""
    if "start" not in columns:
        return []
    return list(zip(*(np.asarray(columns[name]).tolist() for name in ("start", "stop", *names)), strict=True))


@pytest.mark.slow
def test_what_a_live_run_keeps_of_the_past_does_not_grow():
    from hyperframes.frames import FrameSpec
    from hyperframes.operators import Worker
    from hyperframes.packing import Halo, pad, view
    from hyperframes.packing.halo import Boundary
    from hyperframes.testing.operators import _view as a_view

    operator, activity = Anchors(window_seconds=2.0), Activity()
    spec, frames = FrameSpec.picture(48, 64, "gray"), np.concatenate([FILM] * 3)
    contract = activity.configure((spec,))
    rows, luma = (output.spec for output in contract.outputs)
    made = [a_view(output, (0, len(frames)), 0) for output in contract.outputs]
    (whole,) = view((frames,), np.arange(len(frames)), spec, len(frames), Halo(1, 0))
    activity.apply((pad(whole, Halo(1, 0), Boundary()),), tuple(made), None, activity.prepare(Worker()))
    ports = [view(v.planes, np.arange(len(frames)), s, 10, Halo()) for v, s in zip(made, (rows, luma), strict=True)]
    outputs = operator.configure((rows, luma)).outputs
    state, sizes = None, []
    for pair in zip(*ports, strict=True):
        state = operator.apply(pair, tuple(a_view(o, pair[0].header.core, 0) for o in outputs), state, None)
        sizes.append(sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray)))
    assert len(set(sizes)) == 1
    assert sizes[0] < 40 * (48 * 64 + 500) + 16 * 50 * 2
