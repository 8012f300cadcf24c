"""Costs are guessed from content, heavy hyperframes are split, and results never depend on either."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.drivers import engine as engine_module
from hyperframes.drivers.costs import CostModel, look
from hyperframes.drivers.engine import Engine
from hyperframes.pipeline import Pipeline
from hyperframes.scheduling.events import Sealed, Split
from hyperframes.sources import ArraySource

SIZE, HYPERFRAMES = 16, 24


def uneven(heavy=(9, 14, 15, 22)):
    """Still pictures, but for hyperframes of noise."""
    random = np.random.default_rng(0)
    frames = np.full((SIZE * HYPERFRAMES, 24, 32), 60, np.uint8)
    for number in heavy:
        span = slice(number * SIZE, (number + 1) * SIZE)
        frames[span] = random.integers(0, 255, frames[span].shape, np.uint8)
    return frames


@hf.operator(halo=(1, 0))
def settle(frames):
    """Sort pixels that moved through time, many times over: the cost is in what moves."""
    now, before = frames[1:], frames[:-1]
    out = now.copy()
    for t, moved in enumerate((now != before).reshape(len(now), -1).mean(axis=1)):
        for _ in range(1 + int(100 * moved)):
            out[t] = np.sort(np.stack([before[t], now[t]]), axis=0)[1]
    return out


@given(st.data())
def test_costs_follow_what_frames_cost_so_far(data):
    draw = data.draw
    constant, by_motion, by_texture = (draw(st.floats(0.1, 10)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    model = CostModel()
    looks = np.column_stack([np.ones(40), random.uniform(0, 50, 40), random.uniform(0, 20, 40)])
    seconds = looks @ [constant, by_motion, by_texture]
    assert model.expect(looks[0], 7) == 7.0  # nothing is known
    for seen, each in zip(looks, seconds, strict=True):
        model.learn(seen, 5, 5 * each)
    for seen, each in zip(looks, seconds, strict=True):
        assert model.expect(seen, 3) == pytest.approx(3 * each / seconds.mean(), rel=0.1, abs=0.3)


@given(
    st.sampled_from(["bool", "uint8", "int16", "float32", "float64", "complex64"]),
    st.sampled_from([(1,), (5,), (3, 1), (2, 40, 50), (70, 3, 4, 3)]),
    st.sampled_from([0, 1, np.nan, np.inf, 1e308]),
)
def test_any_frames_can_be_looked_at(dtype, shape, value):
    with np.errstate(all="ignore"):
        frames = np.full(shape, value).astype(dtype)
    (hyperframe,) = ArraySource(frames).hyperframes(size=len(frames))
    seen = look(hyperframe)
    assert seen.shape == (3,)
    assert np.isfinite(seen).all()


def test_noise_is_seen_as_motion_and_texture():
    still, noisy = (look(h) for h in list(ArraySource(uneven((1,))).hyperframes(size=SIZE))[:2])
    assert list(still) == [1, 0, 0]
    assert noisy[1] > 50
    assert noisy[2] > 50


def run(frames, workers, policy="fifo"):
    return hf.run(frames, settle, size=SIZE, workers=workers, scheduling_policy=policy).array


@pytest.mark.requirement("A90")
@pytest.mark.parametrize("policy", ["fifo", "priority_by_index", "priority_by_cost"])
def test_split_hyperframes_give_the_frames_of_the_whole(policy, monkeypatch):
    frames = uneven()
    whole = run(frames, 1)
    np.testing.assert_array_equal(run(frames, 2, policy), whole)
    monkeypatch.setattr(engine_module, "HEAVY", 0.1)  # every one of them
    np.testing.assert_array_equal(run(frames, 3, policy), whole)


@pytest.mark.requirement("A89", "A90")
def test_heavy_hyperframes_are_found_by_their_content_and_split_and_others_are_not():
    costs, parts = {}, {}
    by_cost = {"size": SIZE, "workers": 2, "scheduling_policy": "priority_by_cost"}
    engine = Engine(Pipeline.of(uneven(), settle, "null:", **by_cost))
    carry_out, post = engine._execute, engine._post

    def watching(instructions):
        parts.update({i.id: i.parts for i in instructions if isinstance(i, Split)})
        carry_out(instructions)

    def posting(event):
        if isinstance(event, Sealed):
            costs[event.id] = event.cost
        post(event)

    engine._execute, engine._post = watching, posting
    engine.start().wait()
    heavy = {14, 15, 22}  # by 9, which is the first one, it learns that motion costs
    usual = statistics.median(costs.values())
    assert heavy <= parts.keys()
    assert min(costs[number] for number in heavy) > 2 * usual
    assert max(costs[number] for number in (17, 18, 19, 20, 21)) < 2 * usual
