"""Drift: real changes are told, habits and chance are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import FrameError
from hyperframes.index.drift import Baseline, DriftRule


def footage(seed, count, correlation=0.95, scale=0.3):
    """Features whose neighbours are alike, as those of consecutive descriptors are."""
    random = np.random.default_rng(seed)
    level = np.abs(np.random.default_rng(1).normal(1, 0.3, 512))
    noise = random.normal(size=(count, 512)) * scale
    for k in range(1, count):
        noise[k] = correlation * noise[k - 1] + np.sqrt(1 - correlation**2) * noise[k]
    return (level + noise).astype(np.float32)


def alarms(found):
    return [drift.part for drift in found if drift.alarm]


@pytest.mark.requirement("C112")
@given(st.integers(0, 999), st.integers(30, 200), st.sampled_from([0.0, 0.9, 0.99]))
def test_no_stretch_of_the_baseline_raises_an_alarm(seed, count, correlation):
    features = footage(seed, 300, correlation)
    baseline = Baseline(features)
    start = seed % (300 - count)
    assert alarms(baseline.check(features[start : start + count])) == []
    assert alarms(baseline.check(features)) == []


@pytest.mark.requirement("C112")
def test_a_part_that_moved_by_more_than_fifteen_percent_is_named_and_no_other():
    features, later = footage(1, 400, 0.5), footage(2, 100, 0.5)
    baseline = Baseline(features)
    assert alarms(baseline.check(later)) == []
    later[:, 128:256] *= 1.5
    (found,) = [drift for drift in baseline.check(later) if drift.alarm]
    assert (found.part, found.num_samples) == ("flow", 100)
    assert found.deviation == pytest.approx(0.5, abs=0.1)
    assert found.num_independent < 100
    assert alarms(baseline.check(later, DriftRule(deviation=0.9))) == []


@pytest.mark.requirement("C112")
def test_too_few_samples_raise_no_alarm():
    baseline = Baseline(footage(1, 400, 0.5))
    wild = footage(2, 29, 0.5) * 5
    assert alarms(baseline.check(wild)) == []
    assert all(drift.deviation > 3 for drift in baseline.check(wild))
    assert alarms(baseline.check(footage(2, 30, 0.5) * 5)) == ["detection", "flow", "texture", "change"]
    assert [drift.num_samples for drift in baseline.check(wild[:0])] == [0] * 4


@pytest.mark.requirement("C112")
def test_features_that_were_zero_have_a_floor_instead_of_an_infinite_deviation():
    baseline = Baseline(np.zeros((50, 512), np.float32))
    assert alarms(baseline.check(np.zeros((50, 512)))) == []
    noise = baseline.check(np.full((50, 512), 1e-7))
    assert alarms(noise) == []
    assert all(np.isfinite(drift.z_score) and drift.deviation < 0.01 for drift in noise)


def test_other_shapes_are_refused():
    with pytest.raises(FrameError, match=r"expected finite numbers \(n, 512\), got \(3, 4\) float64"):
        Baseline(np.zeros((3, 4)))
    with pytest.raises(FrameError, match="expected finite numbers"):
        Baseline(np.full((3, 512), np.inf))
    with pytest.raises(FrameError, match="expected 2 or more samples, got 1"):
        Baseline(np.zeros((1, 512)))
