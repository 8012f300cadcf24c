"""Losses, metrics and the schedule against what their definitions say on data whose answer is known."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hyperframes import neural
from hyperframes.neural.losses import HyperframeLoss, consistency, smoothness, temporal_gradient
from hyperframes.neural.metrics import ALARMS, coverage, hull_volume, jitter, reconstruction_psnr, temporal_entropy
from hyperframes.neural.schedule import CurvatureCosine


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D75")
@given(st.integers(2, 9), st.integers(0, 100))
def test_consistency_is_the_hinge_over_neighbours(n, seed):
    latent, random = drawn(n, 3, seed=seed), np.random.default_rng(seed)
    group, order = random.integers(0, 2, n), random.integers(0, 4, n)
    near, far = [], []
    for i, j in itertools.combinations(range(n), 2):
        distance = float(np.linalg.norm(latent[i] - latent[j]))
        together = group[i] == group[j] and abs(order[i] - order[j]) <= 1
        if not together:
            far.append(distance)
        elif order[i] != order[j]:
            near.append(distance)
    wanted = np.mean([max(0, d - np.quantile(far, 0.1)) for d in near]) if near and far else 0.0
    assert float(consistency(latent, torch.tensor(group), torch.tensor(order))) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.requirement("D75")
def test_neighbours_are_drawn_together_and_the_others_left_alone():
    latent = drawn(6, 4).requires_grad_()
    group, order = torch.tensor([0, 0, 1, 2, 3, 4]), torch.tensor([0, 1, 0, 0, 0, 0])
    consistency(latent, group, order).backward()
    assert latent.grad[:2].abs().min() > 0
    assert not latent.grad[2:].any()


@pytest.mark.requirement("D76")
def test_the_temporal_term_is_the_mean_squared_step():
    x = drawn(2, 3, 4, 2, 2)
    np.testing.assert_allclose(temporal_gradient(x), np.mean(np.diff(x.numpy(), axis=2) ** 2))
    assert float(temporal_gradient(x[:, :, :1])) == 0


@pytest.mark.requirement("D77")
def test_smoothness_is_zero_on_planes_and_a_number_at_saddles():
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(9.0), indexing="ij")
    plane = (3 * y - 2 * x).expand(1, 2, 3, 8, 9)
    saddle, bowl = ((x - 4) ** 2 - (y - 4) ** 2), (x - 4) ** 2 + (y - 4) ** 2
    assert float(smoothness(plane)) == pytest.approx(0, abs=1e-6)
    values = [float(smoothness(surface.expand(1, 1, 1, 8, 9).contiguous())) for surface in (saddle, bowl, bowl * 10)]
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert values[2] > values[1]


@pytest.mark.requirement("D77")
def test_smoothness_is_the_determinant_of_its_equation():
    f = drawn(1, 1, 1, 6, 7)
    surface = f[0, 0, 0].numpy()
    down, right = np.gradient(surface)
    hessian = np.stack([*np.gradient(down), *np.gradient(right)]).reshape(2, 2, 6, 7)
    hessian[0, 1] = hessian[1, 0]
    matrices = hessian.transpose(2, 3, 0, 1)
    wanted = np.log(np.linalg.det(np.eye(2) + matrices.transpose(0, 1, 3, 2) @ matrices)).mean()
    np.testing.assert_allclose(smoothness(f), wanted, rtol=1e-10)


@pytest.mark.requirement("W11")
@pytest.mark.requirement("D74")
def test_the_loss_is_the_weighted_sum_of_its_parts():
    logits, tensor, latent = drawn(6, 3), drawn(6, 4, 3, 5, 5), drawn(6, 8)
    labels, group, order = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6) % 3
    parts = HyperframeLoss()(logits, labels, tensor, latent, group, order)
    wanted = parts.cross_entropy + 0.1 * parts.consistency + 1e-3 * parts.temporal + 1e-4 * parts.smoothness
    torch.testing.assert_close(parts.total, wanted)
    plain = HyperframeLoss(consistency=0, temporal=0, smoothness=0)(logits, labels, tensor)
    torch.testing.assert_close(plain.total, torch.nn.functional.cross_entropy(logits, labels))


# Metrics --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("W12")
@pytest.mark.requirement("D79")
def test_entropy_tells_noise_from_calm():
    noise = torch.cumsum(drawn(1, 1, 40_000, 1, 1), 2)
    assert temporal_entropy(noise) == pytest.approx(4.45, abs=0.03)
    calm = torch.zeros(1, 1, 1000, 1, 1, dtype=torch.float64)
    calm[:, :, ::100] = 1
    assert temporal_entropy(calm) < 2.1
    assert temporal_entropy(calm * 0) == 0
    assert ALARMS["tge"].text(4.45) == "the model learned noise along time"
    assert ALARMS["tge"].text(3.0) is None


@pytest.mark.requirement("W12")
@pytest.mark.requirement("D78")
def test_psnr_is_in_decibels_of_the_peak():
    frames = torch.zeros(2, 3, 4, 4)
    assert reconstruction_psnr(frames, frames + 0.1) == pytest.approx(20, abs=1e-4)
    assert reconstruction_psnr(frames, frames) == math.inf
    assert ALARMS["fhre"].text(20.0) == "the hyperframe lost information that the frames have"


@pytest.mark.requirement("W12")
@pytest.mark.requirement("D80")
def test_coverage_is_a_share_of_the_reference():
    square = torch.tensor([[0.0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]).double()
    flat = torch.cat([square, torch.zeros(5, 6)], 1)
    assert coverage(flat, flat) == pytest.approx(1)
    assert coverage((flat - 1) * torch.tensor(0.5) + 1, flat) == pytest.approx(0.25, abs=1e-6)
    assert math.isnan(coverage(flat, flat * 0))
    assert ALARMS["mcr"].text(0.25) is not None


def test_the_volume_of_a_hull_is_that_of_known_bodies():
    cube = np.array(list(itertools.product((0.0, 1.0), (0.0, 2.0), (0.0, 3.0))))
    inner = np.random.default_rng(0).uniform(0.1, 0.9, (20, 3))
    assert hull_volume(np.concatenate([cube, inner])) == pytest.approx(6)
    assert hull_volume(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])) == pytest.approx(1 / 6)
    assert hull_volume(np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2.0]])) == 0
    assert hull_volume(np.array([[0, 0], [1, 0], [1, 0]])) == 0


@pytest.mark.requirement("D53")
def test_a_straight_track_has_no_jitter():
    line = np.arange(10)[:, None] * np.array([1.0, 2.0])
    assert jitter(line) == pytest.approx(0, abs=1e-12)
    shaken = line + np.random.default_rng(0).normal(0, 0.5, line.shape)
    assert jitter(shaken) > 0.2
    assert jitter(line * 0) == 0


# Schedule -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("W13")
@pytest.mark.requirement("D71")
@given(st.lists(st.floats(0, 10), min_size=1, max_size=40))
def test_a_bent_batch_changes_the_rate_within_its_bounds(bends):
    schedule = CurvatureCosine(steps=40, warm_up=4)
    for step, bent in enumerate(bends):
        usual = schedule.usual if schedule.usual is not None else bent
        rate = schedule.rate(step, bent)
        ratio = rate / schedule.cosine(step)
        assert 0.7 - 1e-9 <= ratio <= 1.3 + 1e-9
        assert (ratio > 1) == (bent > usual > 0) or ratio == pytest.approx(1)


def test_the_plain_cosine_goes_from_peak_to_floor():
    schedule = CurvatureCosine(steps=100, peak=1.0, floor=0.01, warm_up=10, alpha=0)
    rates = [schedule.rate(step, 5.0) for step in range(101)]
    assert rates[0] == 0.1
    assert rates[9] == rates[10] == 1
    assert rates[100] == pytest.approx(0.01)
    assert rates[55] == pytest.approx(0.505)


def test_everything_is_reached_by_its_public_name():
    assert neural.HyperframeLoss is HyperframeLoss
    assert set(neural.__all__) <= set(dir(neural))
