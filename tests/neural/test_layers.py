"""Every layer against a slow loop that shares no code with it, its gradients against differences, and what it promises."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from hyperframes import neural
from hyperframes.errors import FrameError
from hyperframes.neural.curvature import differences
from hyperframes.neural.layers import pointwise

SIZE = (3, 4, 5)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def shaken(module, seed=1, scale=0.5):
    """Give every parameter a value, so that nothing is zero by chance of initialisation."""
    for i, parameter in enumerate(module.parameters()):
        parameter.data = drawn(*parameter.shape, seed=seed + i) * scale
    return module.double()


# Curvature ------------------------------------------------------------------------------------------------------------


def test_differences_are_those_of_numpy_and_backward_ones_know_no_future():
    x = drawn(2, 3, 5, 4, 6)
    for axis in (2, 3, 4):
        np.testing.assert_allclose(differences(x, axis), np.gradient(x.numpy(), axis=axis), rtol=1e-12)
    backward = differences(x, 2, causal=True)
    np.testing.assert_allclose(backward[:, :, 1:], np.diff(x.numpy(), axis=2))
    assert not backward[:, :, 0].any()


@pytest.mark.requirement("D72")
@pytest.mark.requirement("X14")
@pytest.mark.requirement("D48")
def test_a_plane_has_a_gradient_and_no_curvature_and_a_ball_is_bent_everywhere():
    _, y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (5, 9, 9)), indexing="ij")
    plane = (2 * x + y).reshape(1, 1, 5, 9, 9)
    np.testing.assert_allclose(neural.curvature(plane), math.sqrt(5) * np.ones((1, 1, 5, 9, 9)))
    assert neural.curvature(plane, "surface").abs().max() < 1e-12
    ball = ((x - 4) ** 2 + (y - 4) ** 2).reshape(1, 1, 5, 9, 9) / 4
    inner = neural.curvature(ball, "surface")[0, 0, 2, 2:-2, 2:-2]
    assert inner.min() > 0.02


@pytest.mark.parametrize("kind", ["gradient", "surface"])
@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(1, 2, 3, 4, 4),
        torch.full((1, 2, 3, 4, 4), 1e18),
        drawn(1, 2, 1, 1, 1, dtype=torch.float32),
        torch.stack(torch.meshgrid(*(torch.linspace(-1, 1, n) for n in (3, 4, 4)), indexing="ij"))[1:].prod(0)[
            None, None
        ],
    ],
    ids=["black", "extreme", "one place", "saddle"],
)
def test_curvature_and_its_slope_are_numbers_everywhere(x, kind):
    x = x.clone().requires_grad_()
    value = neural.curvature(x, kind)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(x.grad).all()


# Warp -----------------------------------------------------------------------------------------------------------------


def slow_sample(x, grid):
    """Sample trilinearly with borders, one place at a time."""
    x, grid = x.numpy(), grid.numpy()
    n, c, depth, height, width = x.shape
    out = np.zeros((n, c, *grid.shape[1:4]))
    for item, d, h, w in itertools.product(*(range(s) for s in grid.shape[:4])):
        place = [
            min(max((g + 1) / 2 * (size - 1), 0), size - 1)
            for g, size in zip(grid[item, d, h, w], (width, height, depth), strict=True)
        ]
        for corner in itertools.product((0, 1), repeat=3):
            share, index = 1.0, []
            for take, where, size in zip(corner, place, (width, height, depth), strict=True):
                low = min(int(where), max(size - 2, 0))
                share *= (where - low) if take else 1 - (where - low)
                index.append(min(low + take, size - 1))
            out[item, :, d, h, w] += share * x[item, :, index[2], index[1], index[0]]
    return out


@pytest.mark.requirement("D17")
@pytest.mark.parametrize("decomposed", [False, True])
def test_sampling_is_trilinear_with_borders(decomposed):
    x, grid = drawn(2, 3, *SIZE), drawn(2, 2, 3, 4, 3, seed=4)
    got = neural.sample_grid(x, grid, decomposed=decomposed)
    np.testing.assert_allclose(got, slow_sample(x, grid), atol=1e-12)


@pytest.mark.requirement("D13")
@pytest.mark.requirement("D113")
@pytest.mark.parametrize("temporal", [True, False])
def test_a_new_warp_is_the_identity(temporal):
    x = drawn(2, 3, 4, 8, 10, dtype=torch.float32)
    warp = neural.AdaptiveGridWarp(3, (4, 8, 10), (4, 4, 2), temporal=temporal)
    torch.testing.assert_close(warp(x), x, atol=5e-6, rtol=0)
    assert float(warp.folding(warp.control(x)).detach()) == 0


@pytest.mark.requirement("D16")
@pytest.mark.parametrize("temporal", [True, False])
def test_control_points_stay_within_their_bound_and_never_pass_each_other(temporal):
    warp = shaken(neural.AdaptiveGridWarp(3, SIZE, (3, 3, 2), temporal=temporal), scale=30)
    control = warp.control(drawn(2, 3, *SIZE) * 50)
    spacing = torch.tensor([2 / 2, 2 / 2, 2 / 1])[: control.shape[1]].reshape(1, -1, 1, 1, 1)
    assert (control.abs() <= 0.4501 * spacing).all()
    assert (control.abs() > 0.4 * spacing).any()


@pytest.mark.requirement("D15")
@pytest.mark.requirement("D18")
def test_a_warp_samples_where_its_control_points_say():
    warp = shaken(neural.AdaptiveGridWarp(2, SIZE, (3, 2, 2)))
    x = drawn(1, 2, *SIZE, seed=9)
    place = warp.identity + warp.field(warp.control(x))
    np.testing.assert_allclose(warp(x).detach(), slow_sample(x, place.detach().movedim(1, -1)), atol=1e-12)


@pytest.mark.requirement("D119")
def test_the_2d_fallback_samples_every_slice_by_itself():
    warp = shaken(neural.AdaptiveGridWarp(2, SIZE, (3, 2, 2), temporal=False))
    x = drawn(1, 2, *SIZE, seed=9)
    place = (warp.identity + warp.field(warp.control(x))).detach()
    lines = torch.linspace(-1, 1, SIZE[0], dtype=torch.float64).reshape(1, 1, -1, 1, 1).expand(1, 1, *SIZE)
    whole = torch.cat([place, lines], 1).movedim(1, -1)
    np.testing.assert_allclose(warp(x).detach(), slow_sample(x, whole), atol=1e-12)


@pytest.mark.requirement("D1")
def test_two_frames_have_at_most_two_control_points_in_time():
    assert neural.AdaptiveGridWarp(3, (2, 8, 8)).grid == (2, 8, 8)
    assert neural.AdaptiveGridWarp(3, (1, 8, 8))(drawn(1, 3, 1, 8, 8, dtype=torch.float32)).shape == (1, 3, 1, 8, 8)


def test_a_fold_is_seen():
    warp = neural.AdaptiveGridWarp(1, (3, 5, 5), (5, 5, 3)).double()
    control = torch.zeros(1, 3, 3, 5, 5, dtype=torch.float64)
    assert float(warp.folding(control)) == 0
    control[:, 0, :, :, 2], control[:, 0, :, :, 3] = 0.4, -0.4
    assert float(warp.folding(control)) > 0


@pytest.mark.requirement("D99")
@pytest.mark.requirement("D145")
@given(st.floats(-1.8, 1.8), st.integers(1, 6))
def test_a_constant_shift_in_time_is_linear_interpolation(shift, slices):
    x = drawn(1, 2, slices, 2, 3)
    got = neural.TimeWarp(slices, 1, [shift]).double()(x).numpy()
    shift = float(np.float32(shift))
    for t in range(slices):
        place = min(max(t + shift, 0), slices - 1)
        low = min(int(place), max(slices - 2, 0))
        high = min(low + 1, slices - 1)
        wanted = x[:, :, low] * (1 - (place - low)) + x[:, :, high] * (place - low)
        np.testing.assert_allclose(got[:, :, t], wanted, atol=1e-6)


def test_a_spline_of_equal_knots_is_a_constant_and_a_drift_is_a_line():
    warp = neural.TimeWarp(9, 5, [0.5] * 5)
    np.testing.assert_allclose(warp.basis.sum(1), np.ones(9), rtol=1e-6)
    np.testing.assert_allclose(warp.basis @ warp.offsets, np.full(9, 0.5), rtol=1e-6)
    line = torch.arange(5, dtype=torch.float32)
    np.testing.assert_allclose((warp.basis @ line).diff(), np.full(8, 0.25), rtol=1e-4)
    with pytest.raises(FrameError, match="1 or at least 4 control values: got 3"):
        neural.TimeWarp(9, 3)


# HDSConv --------------------------------------------------------------------------------------------------------------


def slow_hds(layer, x, stride=1, causal=False):
    """The equation, place by place."""
    n, _, t, h, w = x.shape
    a, b = layer.across.weight.detach().numpy(), layer.along.weight.detach().numpy()[..., 0]
    ps, pt = (part.weight.detach().numpy()[..., 0, 0] for part in (layer.from_space, layer.from_time))
    seen = torch.stack([x[:, :, : s + 1 if causal else t].mean((2, 3, 4)) for s in range(t)], 1)
    gate = torch.sigmoid(layer.gate(seen)).detach().numpy()
    x = x.numpy()
    space, time = x[:, : layer.space], x[:, layer.space :]
    rows, columns = -(-h // stride), -(-w // stride)
    out = np.zeros((n, len(ps), t, rows, columns))
    for i, s, y, k in itertools.product(range(n), range(t), range(rows), range(columns)):
        still = np.zeros(layer.space)
        for dy, dx in itertools.product((-1, 0, 1), repeat=2):
            yy, xx = y * stride + dy, k * stride + dx
            if 0 <= yy < h and 0 <= xx < w:
                still += a[:, 0, dy + 1, dx + 1] * space[i, :, s, yy, xx]
        block = np.zeros(layer.time)
        cells = [
            (yy, xx)
            for yy in range(y * stride, min(h, (y + 1) * stride))
            for xx in range(k * stride, min(w, (k + 1) * stride))
        ]
        for yy, xx in cells:
            for ds in (-2, -1, 0) if causal else (-1, 0, 1):
                if 0 <= s + ds < t:
                    block += b[:, 0, ds + (2 if causal else 1)] * time[i, :, s + ds, yy, xx] / len(cells)
        first = ps @ still if layer.mix == "source" else (1 - gate[i, s]) * (ps @ still)
        out[i, :, s, y, k] = first + gate[i, s] * (pt @ block)
    return out


@pytest.mark.requirement("D41")
@pytest.mark.requirement("D42")
@pytest.mark.requirement("W9")
@pytest.mark.requirement("D39")
@pytest.mark.requirement("D40")
@pytest.mark.requirement("D43")
@pytest.mark.parametrize(("stride", "mix", "causal"), [(1, "gate", False), (2, "gate", False), (1, "source", True)])
def test_hdsconv_is_its_equation(stride, mix, causal):
    layer = shaken(neural.HDSConv(3, 2, 4, stride=stride, mix=mix, causal=causal))
    x = drawn(2, 5, 3, 4, 5, seed=7)
    np.testing.assert_allclose(layer(x).detach(), slow_hds(layer, x, stride, causal), atol=1e-12)


@pytest.mark.parametrize("last", [False, True])
def test_a_pointwise_product_is_the_convolution_of_one_place(last):
    conv = shaken(torch.nn.Conv3d(5, 3, 1))
    x = drawn(2, 5, *SIZE)
    if last:
        x = x.contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(pointwise(conv, x), conv(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("training", [False, True])
def test_a_block_answers_as_its_parts_do_and_leaves_its_input_as_it_was(training):
    block = shaken(neural.HyperBlock(3, 2)).train(training)
    x = drawn(2, 5, *SIZE)
    for clip in (x.clone(), x.contiguous(memory_format=torch.channels_last_3d)):
        wanted = torch.relu(clip + copy.deepcopy(block.norm)(block.conv(clip)))
        torch.testing.assert_close(copy.deepcopy(block)(clip), wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(clip.contiguous(), x, rtol=0, atol=0)


def test_hdsconv_refuses_other_channels():
    with pytest.raises(FrameError, match=r"expected 3 \+ 2 channels, got 6"):
        neural.HDSConv(3, 2, 4)(torch.zeros(1, 6, 2, 4, 4))


# Attention ------------------------------------------------------------------------------------------------------------


def slow_attention(layer, x):
    n, c, t, h, w = x.shape
    heads, d = layer.heads, c // layer.heads
    weight, bias = layer.qkv.weight.detach()[:, :, 0, 0, 0], layer.qkv.bias.detach()
    qkv = (
        (torch.einsum("oc,nctyx->notyx", weight, x) + bias.reshape(1, -1, 1, 1, 1))
        .numpy()
        .reshape(n, 3, heads, d, t, h, w)
    )
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    q, k = ((p - p.mean(2, keepdims=True)) / np.sqrt(p.var(2, keepdims=True) + 1e-6) for p in (q, k))
    mean = x.numpy().mean(1)
    slope = np.sqrt(sum(np.gradient(mean, axis=axis) ** 2 for axis in (1, 2, 3)))
    if layer.causal:
        back = np.concatenate([np.zeros_like(mean[:, :1]), np.diff(mean, axis=1)], 1)
        slope = np.sqrt(back**2 + sum(np.gradient(mean, axis=axis) ** 2 for axis in (2, 3)))
    sigma = layer.reach / (1 + slope / math.exp(float(layer.log_kappa0.detach())))
    mixed = np.zeros((n, heads, d, t, h, w))
    for i, g, a, y, z in itertools.product(range(n), range(heads), range(t), range(h), range(w)):
        logits, values = [], []
        for da, dy, dz in itertools.product((-1, 0, 1), repeat=3):
            b, yy, zz = a + da, y + dy, z + dz
            if not (0 <= b < t and 0 <= yy < h and 0 <= zz < w) or (layer.causal and da > 0):
                continue
            near = (da * da + dy * dy + dz * dz) / (2 * sigma[i, a, y, z] ** 2)
            logits.append(q[i, g, :, a, y, z] @ k[i, g, :, b, yy, zz] / math.sqrt(d) - near)
            values.append(v[i, g, :, b, yy, zz])
        weights = np.exp(np.array(logits) - max(logits))
        mixed[i, g, :, a, y, z] = (weights / weights.sum()) @ np.array(values)
    out = torch.einsum(
        "oc,nctyx->notyx", layer.out.weight.detach()[:, :, 0, 0, 0], torch.tensor(mixed.reshape(n, c, t, h, w))
    )
    return x + out + layer.out.bias.detach().reshape(1, -1, 1, 1, 1)


@pytest.mark.requirement("W10")
@pytest.mark.requirement("D45")
@pytest.mark.requirement("D46")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("most", [0, 60], ids=["near places", "all places"])
def test_attention_is_a_softmax_over_the_neighbours_that_are_there(causal, most, monkeypatch):
    monkeypatch.setattr("hyperframes.neural.layers._WHOLE", most)
    layer = shaken(neural.LocalManifoldAttention(4, SIZE, heads=2, causal=causal))
    x = drawn(2, 4, *SIZE, seed=3)
    np.testing.assert_allclose(layer(x).detach(), slow_attention(layer, x), atol=1e-10)


@pytest.mark.requirement("D146")
def test_where_a_tensor_is_bent_attention_reaches_less_far(monkeypatch):
    monkeypatch.setattr("hyperframes.neural.layers._WHOLE", 0)
    layer = neural.LocalManifoldAttention(4, SIZE, heads=2)
    flat, steep = torch.zeros(1, 4, *SIZE), torch.arange(5.0).expand(1, 4, 3, 4, 5) * 20
    scores = torch.zeros(27, 1, *SIZE, 2)
    near = [layer._weights(scores, x)[13, 0, 1, 1, 2, 0] for x in (flat, steep)]  # the middle of 27 is its own place
    assert near[1] > 0.9
    assert near[0] < 0.3


# Projection, normalisation, merging -----------------------------------------------------------------------------------


@pytest.mark.requirement("D49")
@pytest.mark.requirement("W16")
@pytest.mark.requirement("D50")
@pytest.mark.requirement("D51")
def test_a_projection_is_the_cosine_between_changes_and_prototypes():
    layer = neural.TemporalGradientProjection(5, 3, absolute=False).double()
    x = drawn(2, 5, 4, 3, 2)
    layer.fit(x)
    prototypes = layer.prototypes.numpy()
    np.testing.assert_allclose(prototypes @ prototypes.T, np.eye(3), atol=1e-6)
    change = np.gradient(x.numpy(), axis=2)
    wanted = np.einsum("pc,nctyx->nptyx", prototypes, change / np.linalg.norm(change, axis=1, keepdims=True))
    np.testing.assert_allclose(layer(x), wanted, atol=1e-10)
    assert layer(torch.ones(1, 5, 2, 2, 2, dtype=torch.float64)).abs().max() == 0


@pytest.mark.requirement("D97")
def test_prototypes_are_the_ways_in_which_the_data_changes():
    way = torch.nn.functional.normalize(drawn(6), dim=0)
    x = way.reshape(1, 6, 1, 1, 1) * torch.linspace(0, 3, 5, dtype=torch.float64).reshape(1, 1, 5, 1, 1) + drawn(
        6
    ).reshape(1, 6, 1, 1, 1)
    layer = neural.TemporalGradientProjection(6, 3).double()
    layer.fit(x)
    assert abs(float(layer.prototypes[0].double() @ way)) == pytest.approx(1, abs=1e-6)
    assert layer(x)[:, 0].min() > 0.999
    with pytest.raises(FrameError, match="at least 2 slices: got 1"):
        layer(x[:, :, :1])


@pytest.mark.requirement("W13")
@pytest.mark.requirement("D55")
def test_normalisation_follows_slowly_where_the_batch_is_bent():
    layer = neural.ManifoldAwareBatchNorm(3).double()
    x = drawn(4, 3, *SIZE) * 2 + 5
    out = layer(x)
    np.testing.assert_allclose(out.mean((0, 2, 3, 4)).detach(), np.zeros(3), atol=1e-10)
    np.testing.assert_allclose(layer.mean, 0.1 * x.mean((0, 2, 3, 4)), rtol=1e-5)
    moved = []
    for scale in (0.1, 10.0):
        again = neural.ManifoldAwareBatchNorm(3).double()
        again(drawn(4, 3, *SIZE, seed=1))
        before = again.mean.clone()
        x = drawn(4, 3, *SIZE, seed=2) * scale + 7
        again(x)
        moved.append(float(((again.mean - before) / (x.mean((0, 2, 3, 4)) - before)).mean()))
    assert moved[0] == pytest.approx(0.1 * 2 / 1.1, rel=0.1)
    assert moved[1] == pytest.approx(0.1 * 2 / 11, rel=0.2)


def test_evaluation_uses_the_running_statistics():
    layer = neural.ManifoldAwareBatchNorm(2).double()
    for seed in range(200):
        layer(drawn(8, 2, *SIZE, seed=seed) * 3 + 1)
    layer.eval()
    x = drawn(2, 2, *SIZE, seed=999)
    np.testing.assert_allclose(layer(x).detach(), (x - 1) / 3, atol=0.2)


def slow_merge(tokens, sizes, count):
    even, odd = list(range(0, len(tokens), 2)), list(range(1, len(tokens), 2))
    unit = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    pairs = sorted((-max(unit[i] @ unit[j] for j in odd), i) for i in even)
    chosen = [i for _, i in pairs[:count]]
    total = {j: (tokens[j] * sizes[j], sizes[j]) for j in odd}
    for i in chosen:
        j = max(odd, key=lambda j: unit[i] @ unit[j])
        total[j] = (total[j][0] + tokens[i] * sizes[i], total[j][1] + sizes[i])
    total |= {i: (tokens[i] * sizes[i], sizes[i]) for i in even if i not in chosen}
    places = sorted(total)
    return np.stack([total[i][0] / total[i][1] for i in places]), np.array([total[i][1] for i in places])


@given(st.integers(2, 11), st.integers(0, 5), st.integers(0, 1000))
def test_the_most_alike_pairs_are_merged_by_their_sizes(length, count, seed):
    tokens = drawn(1, length, 3, seed=seed)
    sizes = torch.randint(1, 5, (1, length), generator=torch.Generator().manual_seed(seed)).double()
    got, left = neural.merge_tokens(tokens, sizes, count)
    wanted, wanted_sizes = slow_merge(tokens[0].numpy(), sizes[0].numpy(), min(count, length // 2))
    np.testing.assert_allclose(got[0], wanted, atol=1e-12)
    np.testing.assert_allclose(left[0], wanted_sizes)
    assert float(left.sum()) == float(sizes.sum())


@pytest.mark.parametrize(("length", "keep"), [(16, 4), (5, 4), (3, 8), (9, 1)])
def test_merging_goes_on_until_few_are_left_and_can_be_switched_off(length, keep):
    tokens, sizes = neural.TokenMerging(keep)(drawn(2, length, 3))
    assert tokens.shape == (2, min(keep, length), 3)
    assert sizes.sum(1).tolist() == [length, length]
    assert neural.TokenMerging(keep, enabled=False)(drawn(2, length, 3))[0].shape[1] == length


def near_attention(**options):
    """Attention as it is over many places."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hyperframes.neural.layers._WHOLE", 0)
        return neural.LocalManifoldAttention(4, SIZE, heads=2, **options)


# All of them ----------------------------------------------------------------------------------------------------------

LAYERS = {
    "warp": lambda: neural.AdaptiveGridWarp(4, SIZE, (3, 3, 2)),
    "warp, 2-D": lambda: neural.AdaptiveGridWarp(4, SIZE, (3, 3, 2), temporal=False),
    "warp, causal": lambda: neural.AdaptiveGridWarp(4, SIZE, (3, 3, 2), causal=True),
    "time warp": lambda: neural.TimeWarp(3, 4),
    "HDSConv": lambda: neural.HDSConv(3, 1, 4),
    "HDSConv, causal": lambda: neural.HDSConv(3, 1, 4, causal=True),
    "attention": lambda: neural.LocalManifoldAttention(4, SIZE, heads=2),
    "attention, causal": lambda: neural.LocalManifoldAttention(4, SIZE, heads=2, causal=True),
    "attention, near": lambda: near_attention(),
    "attention, near, causal": lambda: near_attention(causal=True),
    "projection": lambda: neural.TemporalGradientProjection(4, 2, absolute=False),
    "normalisation": lambda: neural.ManifoldAwareBatchNorm(4),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


@pytest.mark.slow
@every_layer
def test_gradients_are_those_of_differences(make):
    layer = shaken(make(), scale=0.3)
    x = drawn(1, 4, *SIZE, seed=11).requires_grad_()
    assert gradcheck(layer, (x,), atol=1e-5, nondet_tol=0.0, fast_mode=True)


@every_layer
def test_parameters_get_gradients(make):
    layer = shaken(make(), scale=0.3)
    layer(drawn(2, 4, *SIZE, seed=5).requires_grad_()).square().sum().backward()
    assert all(
        p.grad is not None and torch.isfinite(p.grad).all() and p.grad.abs().sum() > 0 for p in layer.parameters()
    )


@pytest.mark.parametrize("name", ["warp, causal", "HDSConv, causal", "attention, causal", "attention, near, causal"])
@pytest.mark.requirement("D2")
def test_causal_layers_know_no_future(name):
    layer = shaken(LAYERS[name]())
    x = drawn(1, 4, *SIZE)
    changed = x.clone()
    changed[:, :, 2] += 3
    before, after = layer(x), layer(changed)
    torch.testing.assert_close(before[:, :, :2], after[:, :, :2], rtol=0, atol=0)
    assert not torch.equal(before[:, :, 2], after[:, :, 2])


@every_layer
@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
def test_flat_and_extreme_input_gives_numbers(make, value):
    layer = make()
    x = torch.full((2, 4, *SIZE), value, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()


@every_layer
def test_a_layer_gives_the_same_twice_and_for_channels_last(make):
    torch.manual_seed(3)
    layer = make().eval()
    x = drawn(2, 4, *SIZE, dtype=torch.float32)
    torch.testing.assert_close(layer(x), layer(x), rtol=0, atol=0)
    torch.testing.assert_close(
        layer(x.contiguous(memory_format=torch.channels_last_3d)), layer(x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
@every_layer
def test_a_layer_exports_to_one_graph_that_gives_the_same(make):
    layer = make().eval()
    x = drawn(2, 4, *SIZE, dtype=torch.float32)
    exported = torch.export.export(layer, (x,)).module()
    torch.testing.assert_close(exported(x), layer(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@every_layer
@pytest.mark.requirement("D103")
@pytest.mark.requirement("D142")
def test_no_grid_or_index_is_made_anew_by_a_call(make):
    """What depends on the size alone is a buffer: a graph of the layer makes no ranges."""
    layer = make().eval()
    graph = torch.export.export(layer, (drawn(2, 4, *SIZE, dtype=torch.float32),)).graph
    made = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    if "causal" in str(make.__code__.co_consts) or (isinstance(layer, neural.AdaptiveGridWarp) and layer.causal):
        made = [name for name in made if "arange" not in name]  # one number a slice
    assert not [
        name for name in made if any(word in name for word in ("arange", "linspace", "meshgrid", "affine_grid"))
    ]
