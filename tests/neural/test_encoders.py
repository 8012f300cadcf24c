"""Encoders: their shapes, their parts against slow loops, what they must not do on odd input, and graphs of them."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from hyperframes import neural
from hyperframes.errors import FrameError
from hyperframes.frames import Events, steadied
from hyperframes.neural import motion
from hyperframes.neural.encoders import CrossScaleAttention, TemporalAttention, folded, unfolded
from hyperframes.neural.event_encoder import ClusterGraph, DensityNorm, GraphConvolution
from hyperframes.neural.motion import Warp, visible

CLIP = (6, 32, 40)
GRID = (8, 32, 32)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def clips(n=1, size=CLIP, channels=3, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    small = torch.rand((n, channels, size[0], 6, 7), generator=generator, dtype=dtype)
    return torch.nn.functional.interpolate(small, size, mode="trilinear", align_corners=True)


def grids(n=1, size=GRID, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.rand((n, 2, *size), generator=generator, dtype=dtype)
    return (counts > 0.8) * counts * 5


def shaken(module, scale=0.2):
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(scale * torch.randn_like(p))
    return module


ENCODERS = {
    "MCH": lambda **options: neural.MCH(3, 0.1, size=CLIP, **options),
    "SCH": lambda **options: neural.SCH(3, 0.1, size=CLIP, **options),
    "hybrid": lambda **options: neural.Hybrid(3, 0.1, size=CLIP, **options),
    "EDH": lambda **options: neural.EDH(0.1, size=GRID, nodes=12, neighbours=4, **options),
}
every_encoder = pytest.mark.parametrize("name", ENCODERS)


def example(name, n=1, seed=0, dtype=torch.float32):
    return grids(n, seed=seed, dtype=dtype) if name == "EDH" else clips(n, seed=seed, dtype=dtype)


# Shapes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("W15")
@pytest.mark.requirement("D20")
@pytest.mark.requirement("W8")
@pytest.mark.slow
@pytest.mark.requirement("D26")
@pytest.mark.requirement("D27")
@pytest.mark.requirement("D28")
@pytest.mark.requirement("D30")
@pytest.mark.parametrize(
    ("encoder", "shape", "packed"),
    [
        (lambda: neural.MCH(), (192, 4, 32, 32), (384, 32, 32)),
        (lambda: neural.SCH(), (320, 4, 16, 16), (512, 16, 16)),
        (lambda: neural.EDH(), (160, 4, 8, 8), (256, 8, 8)),
    ],
    ids=["MCH", "SCH", "EDH"],
)
def test_tensors_have_the_shapes_of_their_type(encoder, shape, packed):
    encoder = encoder().eval()
    size = (1, 2, 16, 128, 128) if encoder.kind == "edh" else (1, 3, 16, 256, 256)
    with torch.no_grad():
        tensor = encoder.tensor(torch.rand(size, generator=torch.Generator().manual_seed(0)), "a.mp4", ((0, 16),))
    assert tuple(tensor.data.shape) == (1, *shape)
    assert tuple(tensor.packed().shape) == (1, *packed)
    assert tensor.split == (encoder.space, encoder.time)
    assert tensor.curvature.shape == (1, 1, *shape[1:])
    torch.testing.assert_close(encoder.packed(tensor.data), tensor.packed())
    assert encoder.out_channels == packed[0]


@every_encoder
def test_space_is_the_same_in_every_slice_and_the_vector_is_the_mean_of_the_packed_tensor(name):
    encoder = shaken(ENCODERS[name]()).eval()
    x = example(name, 2)
    with torch.no_grad():
        tensor = encoder(x)
        assert torch.equal(tensor[:, : encoder.space, 0], tensor[:, : encoder.space, -1])
        torch.testing.assert_close(encoder.embed(x), encoder.packed(tensor).mean((2, 3)))
    assert encoder.embed(x).shape == (2, encoder.out_channels)


@pytest.mark.requirement("D134")
def test_the_hybrid_keeps_space_with_space_and_time_with_time():
    hybrid = ENCODERS["hybrid"]().eval()
    with torch.no_grad():
        tensor, moving = hybrid(clips()), hybrid.motion(clips())
        meaning = hybrid.meaning(clips())
    a, b, total = hybrid.motion.space, hybrid.meaning.space, hybrid.space
    assert hybrid.space == a + b
    assert hybrid.time == hybrid.motion.time + hybrid.meaning.time
    torch.testing.assert_close(tensor[:, :a], moving[:, :a])
    torch.testing.assert_close(tensor[:, total : total + hybrid.motion.time], moving[:, a:])
    torch.testing.assert_close(tensor[:, a:total].mean(), meaning[:, :b].mean(), rtol=0.2, atol=0.05)


def test_clips_of_other_sizes_are_resized_and_of_other_lengths_refused():
    encoder = ENCODERS["MCH"]().eval()
    assert encoder(torch.rand(1, 3, 6, 64, 50)).shape == encoder(torch.rand(1, 3, 6, 20, 24)).shape
    with pytest.raises(FrameError, match=r"takes clips \(N, C, 6, H, W\): got \(1, 3, 5, 32, 40\)"):
        encoder(torch.rand(1, 3, 5, 32, 40))
    with pytest.raises(FrameError, match="16 pixels a side"):
        neural.MCH(size=(4, 8, 64))
    with pytest.raises(FrameError, match="takes events in voxels"):
        ENCODERS["EDH"]()(torch.rand(1, 3, 8, 32, 32))
    with pytest.raises(FrameError, match="multiples of 16"):
        neural.EDH(size=(8, 30, 32))


@pytest.mark.requirement("D24")
def test_any_list_of_maps_will_do_for_the_semantic_encoder():
    maps = [(5, 20, 24), (7, 4, 5), (3, 1, 2)]
    encoder = neural.SCH(width=0.1, size=CLIP, maps=maps).eval()
    given = [drawn(2, c, 6, h, w, dtype=torch.float32) for c, h, w in maps]
    assert encoder(given).shape == (2, encoder.space + encoder.time, 4, 2, 3)
    with pytest.raises(FrameError, match="has no backbone"):
        encoder(clips())
    with pytest.raises(FrameError, match="expected maps"):
        encoder(given[:2])
    with pytest.raises(FrameError, match="needs the shapes of its maps"):
        neural.SCH(backbone=torch.nn.Identity())


@pytest.mark.requirement("D25")
def test_merging_can_be_switched_off_and_keeps_every_frame():
    encoder = ENCODERS["SCH"](merge=False).eval()
    assert encoder(clips()).shape[2] == encoder.slices == CLIP[0]


@pytest.mark.requirement("D25")
def test_frames_that_are_alike_become_one_slice():
    encoder = ENCODERS["SCH"]()
    last = drawn(1, 6, 3, 2, 3, seed=4)[:, :, [0, 0, 0, 0, 1, 2]]
    shares, sizes = encoder._alike(last)
    assert sorted(sizes[0].tolist()) == [1, 1, 1, 3]
    torch.testing.assert_close(shares.sum(2), torch.ones_like(sizes))
    assert all(not (row[:4].any() and row[4:].any()) for row in shares[0])


# Motion ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D14")
@pytest.mark.requirement("D21")
@pytest.mark.requirement("D119")
@pytest.mark.parametrize("kind", ["LucasKanade", "DenseInverseSearch"])
@pytest.mark.parametrize(("dx", "dy"), [(0.0, 0.0), (0.4, -0.7), (3.0, 1.5), (-6.0, 5.0)])
def test_flow_finds_a_shift(dx, dy, kind):
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(72.0), indexing="ij")

    def picture(ox, oy):
        return (
            0.5 + 0.25 * torch.sin((x - ox) / 5) * torch.cos((y - oy) / 6) + 0.2 * torch.sin((x + y - ox - oy) / 9)
        )[None, None]

    flow = getattr(motion, kind)((64, 72))(picture(0, 0), picture(dx, dy))
    inside = flow[0, :, 12:-12, 12:-12]
    assert float((inside[0] - dx).abs().median()) < 0.2
    assert float((inside[1] - dy).abs().median()) < 0.2


def test_warping_is_bilinear_between_places():
    x, flow = drawn(1, 2, 4, 5), drawn(1, 2, 4, 5, seed=1) * 2
    got = Warp(4, 5).double()(x, flow)
    for row, column in itertools.product(range(4), range(5)):
        px = min(max(column + float(flow[0, 0, row, column]), 0), 4)
        py = min(max(row + float(flow[0, 1, row, column]), 0), 3)
        left, top = min(int(px), 3), min(int(py), 2)
        fx, fy = px - left, py - top
        wanted = (
            x[0, :, top, left] * (1 - fx) * (1 - fy)
            + x[0, :, top, left + 1] * fx * (1 - fy)
            + x[0, :, top + 1, left] * (1 - fx) * fy
            + x[0, :, top + 1, left + 1] * fx * fy
        )
        torch.testing.assert_close(got[0, :, row, column], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.requirement("D135")
@pytest.mark.requirement("D22")
def test_what_does_not_come_back_is_hidden():
    there = torch.zeros(1, 2, 4, 6)
    there[:, 0] = 2
    back = -there.clone()
    back[:, 0, :, 4] = 1.0
    seen = visible(there, back, Warp(4, 6))
    assert seen[0, 0, 0].tolist() == [1, 1, 0, 1, 1, 1]


@pytest.mark.requirement("D22")
def test_fusion_is_the_masked_residual_to_the_reference_frame():
    encoder = ENCODERS["MCH"]().double()
    h, w = encoder.map
    features, flow = drawn(1, 3, 6, h, w), drawn(1, 4, 6, h, w, seed=2) * 6
    still, moving = encoder.aligned(features, flow)
    scale = torch.tensor([w / CLIP[2], h / CLIP[1]], dtype=torch.float64).reshape(2, 1, 1)
    warp = Warp(h, w).double()
    rows = []
    for t in range(6):
        there, back = flow[:, :2, t] * scale, flow[:, 2:, t] * scale
        warped, seen = warp(features[:, :, t], there), visible(there, back, warp)
        residual = (warped - features[:, :, 3]) * seen
        before = features[:, :, t - 1] if t else features[:, :, t]
        speed = (there.pow(2).sum(1, keepdim=True) + 1e-6).sqrt()
        rows.append(torch.cat([residual, residual.abs(), (features[:, :, t] - before).abs(), there, speed, seen], 1))
    for i, (start, stop) in enumerate([(0, 2), (2, 3), (3, 4), (4, 6)]):
        mean = sum(rows[start:stop]) / (stop - start)
        torch.testing.assert_close(moving[:, :, i], mean)
        torch.testing.assert_close(still[:, :, i], features[:, :, 3] + mean[:, :3])


@pytest.mark.requirement("D23")
def test_a_part_that_turns_is_brought_to_one_place():
    y, x = torch.meshgrid(torch.linspace(-1, 1, 128), torch.linspace(-1, 1, 128), indexing="ij")
    frames = []
    for t in range(5):
        turn = 0.05 * (t - 2)
        a, b = x * math.cos(turn) + y * math.sin(turn), -x * math.sin(turn) + y * math.cos(turn)
        frames.append((0.5 + 0.3 * torch.sin(9 * a) * torch.sin(7 * b)) * torch.exp(-2 * (x * x + y * y)))
    clip = torch.stack(frames).expand(1, 3, 5, 128, 128).contiguous()
    encoder = neural.MCH(3, 0.1, size=(5, 128, 128))
    flow = encoder.motion(clip)
    warp = Warp(128, 128)
    grown = torch.nn.functional.interpolate(folded(flow[:, :2]), (128, 128), mode="bilinear")
    turned = warp(folded(clip), grown)
    before, after = ((folded(clip) - clip[:, :, 2]).abs().mean(), (turned - clip[:, :, 2]).abs().mean())
    assert after < before / 4


# Parts against loops --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D96")
def test_pooling_asks_every_place_of_every_scale():
    places = [(4, 6), (2, 3), (1, 2)]
    layer = shaken(CrossScaleAttention([3, 2, 4], places, (2, 3), 8, heads=2)).double()
    maps = [drawn(1, c, *p, seed=c) for c, p in zip([3, 2, 4], places, strict=True)]
    got = layer(maps)
    grown = torch.nn.functional.interpolate(maps[2], (2, 3), mode="bilinear", align_corners=False)
    linear = torch.nn.functional.linear

    def projected(i, vector):
        return linear(vector, layer.project[i].weight[:, :, 0, 0], layer.project[i].bias) + layer.scale[i]

    def normalised(v, norm):
        return torch.nn.functional.layer_norm(v, (4,), norm.weight, norm.bias)

    for row, column in itertools.product(range(2), range(3)):
        tokens = [projected(0, maps[0][0, :, 2 * row + a, 2 * column + b]) for a in (0, 1) for b in (0, 1)]
        tokens += [projected(1, maps[1][0, :, row, column]), projected(2, grown[0, :, row, column])]
        query = layer.ask(sum(tokens) / 6 + layer.query)
        out = []
        for head in (slice(0, 4), slice(4, 8)):
            q = normalised(query[head], layer.norm_query)
            logits = torch.stack([q @ normalised(layer.key(t)[head], layer.norm_key) / 2 for t in tokens])
            weights = torch.softmax(logits, 0)
            out.append(sum(w * layer.value(t)[head] for w, t in zip(weights, tokens, strict=True)))
        torch.testing.assert_close(got[0, :, row, column], layer.out(torch.cat(out)))


@pytest.mark.parametrize("causal", [False, True])
def test_a_slice_counts_as_the_frames_it_stands_for(causal):
    layer = shaken(TemporalAttention(4, 3, heads=2, causal=causal)).double()
    x, sizes = drawn(1, 4, 3, 1, 2), torch.tensor([[1.0, 4.0, 2.0]], dtype=torch.float64)
    got = layer(x, sizes)
    for column in range(2):
        tokens = x[0, :, :, 0, column].T
        q, k, v = layer.qkv(tokens).unflatten(1, (3, 2, 2)).unbind(1)
        for t in range(3):
            out = []
            for head in range(2):
                q_one = layer.norm_query(q[t, head])
                seen = range(t + 1) if causal else range(3)
                weights = [
                    float(sizes[0, s]) * torch.exp(q_one @ layer.norm_key(k[s, head]) / math.sqrt(2)) for s in seen
                ]
                out.append(sum(w * v[s, head] for w, s in zip(weights, seen, strict=True)) / sum(weights))
            torch.testing.assert_close(got[0, :, t, 0, column], tokens[t] + layer.out(torch.cat(out)))


@pytest.mark.requirement("W14")
@pytest.mark.requirement("D98")
def test_densities_grow_evenly_and_saturate():
    layer = DensityNorm()
    r = torch.zeros(1, 2, 1, 1, 3)
    r[0, 0, 0, 0, :2] = torch.tensor([1.0, 3.0])
    x = r / 2
    torch.testing.assert_close(layer(r), x / (1 + 0.1 * x))
    torch.testing.assert_close(layer(100 * r), layer(r))
    layer.fit(r)
    assert float(layer.rate) == 2
    assert float(layer(1e6 * r).max()) == pytest.approx(10, rel=1e-3)
    assert torch.isfinite(DensityNorm()(torch.zeros(1, 2, 2, 2, 2))).all()


@pytest.mark.requirement("W14")
@pytest.mark.requirement("D34")
@pytest.mark.requirement("D35")
@pytest.mark.parametrize("causal", [False, True])
def test_edges_go_to_the_nearest_nodes_and_decay_with_time(causal):
    layer = ClusterGraph((4, 8, 8), (2, 4, 4), nodes=8, neighbours=3, tau=0.3, causal=causal).double()
    mass = grids(1, (4, 8, 8), seed=3, dtype=torch.float64).sum(1, keepdim=True)
    mass[:, :, 2:, 4:, 4:] = 0
    index, real, where, edges = layer(mass)
    sums = []
    for a, b, c in itertools.product(range(2), range(2), range(2)):
        block = mass[0, 0, 2 * a : 2 * a + 2, 4 * b : 4 * b + 4, 4 * c : 4 * c + 4]
        total, centre = float(block.sum()), np.zeros(3)
        for i, j, k in itertools.product(range(2), range(4), range(4)):
            at = np.array([(2 * a + i + 0.5) / 4, (4 * b + j + 0.5) / 8, (4 * c + k + 0.5) / 8])
            centre += float(block[i, j, k]) * at
        sums.append((total, centre / max(total, 1e-12)))
    order = sorted(range(8), key=lambda i: (i // 4 if causal else 0, -sums[i][0]))
    assert index[0].tolist() == order
    assert real[0].tolist() == [float(sums[i][0] > 0) for i in order]
    np.testing.assert_allclose(where[0], [sums[i][1] for i in order], atol=1e-6)
    for i, j in itertools.product(range(8), range(8)):
        allowed = [n for n in range(8) if real[0, n] and not (causal and where[0, n, 0] > where[0, i, 0])]
        near = sorted(allowed, key=lambda n: float((where[0, n] - where[0, i]).pow(2).sum()))[:3]
        weight = {n: math.exp(-abs(float(where[0, n, 0] - where[0, i, 0])) / 0.3) for n in near}
        assert float(edges[0, i, j]) == pytest.approx(weight.get(j, 0) / max(sum(weight.values()), 1e-12), abs=1e-9)


def test_a_graph_convolution_sums_over_its_edges():
    layer = GraphConvolution(3).double()
    h, edges = drawn(1, 4, 3), torch.softmax(drawn(1, 4, 4, seed=1), 2)
    wanted = torch.stack(
        [
            h[0, i]
            + torch.relu(layer.norm(layer.own(h[0, i]) + layer.others(sum(edges[0, i, j] * h[0, j] for j in range(4)))))
            for i in range(4)
        ]
    )
    torch.testing.assert_close(layer(h, edges)[0], wanted)


@pytest.mark.requirement("D33")
def test_a_grid_of_events_loses_none_and_keeps_their_time():
    random = np.random.default_rng(0)
    t = np.sort(random.integers(0, 10_000, 400))
    events = Events.of(
        t, random.integers(0, 34, 400), random.integers(0, 30, 400), random.integers(0, 2, 400), (30, 34)
    )
    grid = neural.event_grid(events, (8, 16, 16))
    assert grid.shape == (2, 8, 16, 16)
    assert float(grid[0].sum()) == pytest.approx(int((events.p == 0).sum()), rel=1e-5)
    assert float(grid[1].sum()) == pytest.approx(int((events.p == 1).sum()), rel=1e-5)
    centre = (grid.sum((0, 2, 3)) * torch.arange(8)).sum() / grid.sum()
    assert float(centre) == pytest.approx(float((t - t[0]).mean()) / (t[-1] - t[0]) * 7, rel=1e-4)
    with pytest.raises(FrameError, match="size of the sensor"):
        neural.event_grid(Events.of([0], [0], [0], [1]))


def test_events_of_a_small_sensor_leave_no_place_empty_and_lose_nothing():
    ends = np.array([0, 300, 600, 1000, 1000])
    events = Events.of(ends, np.array([0, 1, 2, 2, 0]), np.array([0, 1, 1, 1, 0]), np.array([1, 1, 0, 1, 0]), (2, 3))
    grid = neural.event_grid(events, (2, 4, 6), (0, 1000))
    assert float(grid.sum()) == pytest.approx(5)
    assert torch.equal(grid[1, :, :2, :2], grid[1, :, :1, :1].expand(-1, 2, 2))
    assert float(neural.event_grid(events, (2, 3, 5), (0, 1000)).sum()) == pytest.approx(5)
    one = neural.event_grid(Events.of([0], [0], [0], [1], (2, 3)), (1, 3, 5), (0, 1000))[1, 0]
    shares = torch.outer(torch.tensor([1, 0.5]) / 1.5, torch.tensor([1, 2 / 3]) / (5 / 3))  # of a pixel of 1.5 x 5 / 3
    torch.testing.assert_close(one, torch.nn.functional.pad(shares, (0, 3, 0, 1)))


@pytest.mark.requirement("D126")
def test_a_tensor_of_shaken_events_is_that_of_still_ones_once_they_are_steadied():
    """Neither the densities nor the graph shrug a shake off; taking the ego-motion back does."""
    random = np.random.default_rng(0)
    t = np.sort(random.integers(0, 200_000, 6_000))
    edges = random.integers(8, 24, (60, 2))
    place = edges[random.integers(0, 60, len(t))]
    still = Events.of(t, place[:, 1], place[:, 0], random.integers(0, 2, len(t)), (32, 32))
    offset = np.rint(3 * np.sin(np.arange(41) * 1.3)).astype(int)[(t - t.min()) // 5_000]
    shaking = Events.of(t, still.x + offset, still.y, still.p, (32, 32))
    encoder = shaken(ENCODERS["EDH"]()).eval()
    with torch.no_grad():
        a, b, c = (encoder.embed(neural.event_grid(one, GRID)[None]) for one in (still, shaking, steadied(shaking)))
    assert float((c - a).norm()) < 0.2 * float((b - a).norm())


@pytest.mark.requirement("D29")
def test_signed_grids_are_taken_apart_by_their_sign():
    encoder = ENCODERS["EDH"]().eval()
    grid = grids()
    grid[:, 0] *= grid[:, 1] == 0
    torch.testing.assert_close(encoder(grid[:, 1] - grid[:, 0]), encoder(grid))


# All of them ----------------------------------------------------------------------------------------------------------


@every_encoder
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["black", "constant", "extreme", "saddle", "still"])
def test_odd_input_gives_numbers(name, training, kind):
    encoder = ENCODERS[name]().train(training)
    x = example(name, 2)
    if kind == "saddle":
        y, z = torch.meshgrid(torch.linspace(-1, 1, x.shape[3]), torch.linspace(-1, 1, x.shape[4]), indexing="ij")
        x = (y * y - z * z).abs().expand_as(x).contiguous()
    elif kind == "still":
        x = x[:, :, :1].expand_as(x).contiguous()
    else:
        x = torch.full_like(x, {"black": 0.0, "constant": 0.7, "extreme": 1e5}[kind])
    encoder(x).square().mean().backward()
    tensor = encoder(x)
    assert torch.isfinite(tensor).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in encoder.parameters())


@pytest.mark.parametrize("kind", [neural.MCH, neural.SCH, neural.Hybrid])
def test_clips_of_one_frame_have_one_slice(kind):
    encoder = kind(3, 0.1, size=(1, 32, 32))
    assert encoder.slices == 1
    assert torch.isfinite(encoder(clips(2, (1, 32, 32)))).all()


@every_encoder
def test_a_seed_gives_one_encoder_and_one_result(name):
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        encoder = ENCODERS[name]()
        encoder(example(name, 2)).mean().backward()
        results.append((encoder.eval()(example(name)), [p.grad for p in encoder.parameters()]))
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True) if a is not None)


@every_encoder
def test_every_parameter_is_trained(name):
    encoder = shaken(ENCODERS[name]()).train()
    encoder(example(name, 2)).square().sum().backward()
    idle = [key for key, p in encoder.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle


@pytest.mark.requirement("D2")
@every_encoder
def test_a_causal_encoder_knows_no_future(name):
    encoder = shaken(ENCODERS[name](causal=True)).eval()
    if name == "EDH":
        encoder.density.fit(grids())
    x = example(name)
    changed = x.clone()
    changed[:, :, -2:] = changed[:, :, -2:].flip(3) + 0.3
    with torch.no_grad():
        before, after = encoder(x), encoder(changed)
    torch.testing.assert_close(before[:, :, :3], after[:, :, :3], rtol=0, atol=0)
    assert not torch.equal(before[:, :, 3], after[:, :, 3])


@pytest.mark.slow
@every_encoder
def test_gradients_are_those_of_differences(name):
    torch.manual_seed(0)
    encoder = shaken(ENCODERS[name]().double().eval(), 0.05)
    x = example(name, dtype=torch.float64)
    names, parameters = zip(*((k, p) for k, p in encoder.named_parameters() if p.numel() < 400), strict=True)

    def value(*given):
        return torch.func.functional_call(encoder, dict(zip(names, given, strict=True)), (x,)).square().mean()

    inputs = tuple(p.detach().requires_grad_() for p in parameters)
    assert gradcheck(value, inputs, eps=1e-7, atol=1e-5, rtol=1e-2, nondet_tol=0.0, fast_mode=True)


@pytest.mark.slow
def test_gradients_reach_the_clip_where_the_flow_is_given():
    encoder = ENCODERS["MCH"](depth=1).double().eval()
    clip, flow = clips(dtype=torch.float64).requires_grad_(), torch.full((1, 4, 6, 8, 10), 0.7).double()
    assert gradcheck(lambda x: encoder(x, flow).mean(), (clip,), atol=1e-5, rtol=1e-2, fast_mode=True)


@pytest.mark.slow
@every_encoder
def test_an_encoder_exports_to_one_graph_without_new_grids(name):
    encoder = shaken(ENCODERS[name]()).eval()
    x = example(name)
    program = torch.export.export(encoder, (x,))
    torch.testing.assert_close(program.module()(x), encoder(x), rtol=1e-4, atol=1e-5)
    made = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not [one for one in made if any(word in one for word in ("linspace", "meshgrid", "affine_grid"))]


@pytest.mark.slow
@every_encoder
def test_a_compiled_encoder_gives_the_same(name):
    encoder = shaken(ENCODERS[name]()).eval()
    x = example(name)
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")  # generating code takes minutes
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), encoder(x), rtol=1e-3, atol=1e-4)


@every_encoder
def test_channels_last_gives_the_same(name):
    encoder = shaken(ENCODERS[name]()).eval()
    x = example(name)
    with torch.no_grad():
        got = encoder(x.contiguous(memory_format=torch.channels_last_3d))
        torch.testing.assert_close(got, encoder(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "part", [{"warp": False}, {"attention": False}, {"convolution": "3d"}, {"norm": "batch"}, {"flow": "none"}]
)
def test_parts_can_be_left_out_to_see_what_they_are_worth(part):
    whole, without = ENCODERS["MCH"](), ENCODERS["MCH"](**part)
    assert without(clips(2)).shape == whole(clips(2)).shape
    if "convolution" in part:
        with pytest.raises(FrameError, match="not causal"):
            ENCODERS["MCH"](causal=True, **part)


@pytest.mark.requirement("D119")
def test_the_motion_encoder_takes_other_flow_and_refuses_what_is_none():
    moving = ENCODERS["MCH"](flow="dis").motion(clips(2))
    assert moving.shape == (2, 4, 6, 32, 40)
    assert float(moving.abs().max()) > 0.1
    torch.testing.assert_close(ENCODERS["MCH"](flow="none").motion(clips(2)), torch.zeros(2, 4, 6, 8, 10))
    with pytest.raises(FrameError, match="at least 32 pixels a side"):
        neural.MCH(3, 0.1, size=(4, 24, 40), flow="dis")
    with pytest.raises(FrameError, match="expected one of lucas_kanade, dis, none"):
        neural.MCH(3, 0.1, size=CLIP, flow="raft")


# Head and baselines ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_classifier_learns_which_way_things_move():
    torch.manual_seed(0)
    y, x = torch.meshgrid(torch.arange(24.0), torch.arange(24.0), indexing="ij")

    def moving(way, phase):
        frames = [0.5 + 0.4 * torch.sin((x - way * 2.0 * t) / 4 + phase) * torch.cos(y / 5) for t in range(4)]
        return torch.stack(frames).expand(3, 4, 24, 24)

    phases = torch.rand(16, generator=torch.Generator().manual_seed(0)) * 6
    data = torch.stack([moving(1 if i % 2 else -1, p) for i, p in enumerate(phases)])
    labels = torch.arange(16) % 2
    model = neural.Classifier(neural.MCH(3, 0.1, size=(4, 24, 24), depth=1), 2, dropout=0.0)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(25):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data[:12]), labels[:12])
        loss.backward()
        optimiser.step()
    model.eval()
    assert (model(data[12:]).argmax(1) == labels[12:]).all()


def test_prototypes_join_the_vector_of_a_classifier():
    model = neural.Classifier(ENCODERS["MCH"](), 3, prototypes=4).eval()
    model.fit_prototypes(clips(2))
    logits, tensor, latent = model.with_tensor(clips(2))
    assert logits.shape == (2, 3)
    assert latent.shape == (2, model.encoder.out_channels)
    assert tensor.ndim == 5
    torch.testing.assert_close(model(clips(2)), logits)
    with pytest.raises(FrameError, match="no prototypes to fit"):
        neural.Classifier(ENCODERS["MCH"](), 3).fit_prototypes(clips())
    with pytest.raises(FrameError, match="at least 2 classes"):
        neural.Classifier(ENCODERS["MCH"](), 1)


@pytest.mark.parametrize("kind", [neural.baselines.ResNet3D, neural.baselines.FrameAverage])
def test_baselines_have_as_many_parameters_as_they_are_asked_to(kind):
    wanted = neural.baselines.num_parameters(ENCODERS["MCH"]())
    width = neural.baselines.width_for(lambda width: kind(3, width), wanted * 20)
    assert neural.baselines.num_parameters(kind(3, width)) == pytest.approx(wanted * 20, rel=0.1)
    model = neural.Classifier(kind(3, 0.05), 2)
    logits, maps, latent = model.with_tensor(clips(2))
    assert logits.shape == (2, 2)
    assert maps.ndim == 5
    torch.testing.assert_close(latent, model.encoder.embed(clips(2)), rtol=1e-2, atol=1e-2)
    with pytest.raises(FrameError, match="no width up to 4"):
        neural.baselines.width_for(lambda width: kind(3, width), 10**12)


def test_a_3d_resnet_of_full_width_has_the_known_size():
    with torch.device("meta"):
        model = neural.baselines.ResNet3D()
    assert neural.baselines.num_parameters(model) == pytest.approx(33.17e6, rel=0.01)


@pytest.mark.requirement("D143")
def test_the_table_of_what_encoders_ask_of_a_chip_is_what_they_call():
    class Called(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = set()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    encoders = {
        "mch": ENCODERS["MCH"](), "mch, warp = false": ENCODERS["MCH"](warp=False), "sch": ENCODERS["SCH"](),
        "sch, merge = false": ENCODERS["SCH"](merge=False), "edh": ENCODERS["EDH"](), "hybrid": ENCODERS["hybrid"](),
    }  # fmt: skip
    text = (Path(__file__).parents[2] / "docs/learning.md").read_text()
    for name, encoder in encoders.items():
        with torch.no_grad(), Called() as called:
            encoder.eval()(example("EDH" if name == "edh" else "MCH"))
        found = [
            called.names & wanted for wanted in ({"grid_sampler_3d"}, {"grid_sampler_2d"}, {"topk", "scatter_add"})
        ]
        shown = ", ".join(f"`{part}`" for part in name.split(", "))
        assert f"| {shown} | {' | '.join('yes' if one else 'no' for one in found)} |" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ENCODERS, "ResNet3D", "FrameAverage"])
def test_what_only_answers_gives_the_same_from_fewer_calls(name):
    if name in ENCODERS:
        net = shaken(ENCODERS[name]())
    else:
        net = neural.Classifier(getattr(neural.baselines, name)(3, 0.1), 3)
    x = example(name, 2)
    net.train()(x)  # statistics that are not those of the start
    net.eval()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    quick = neural.answering(net)
    with torch.inference_mode():
        torch.testing.assert_close(quick(x), net(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    norms = torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, neural.ManifoldAwareBatchNorm
    assert any(isinstance(part, norms) for part in net.modules())
    assert not any(isinstance(part, norms) for part in quick.modules())


def test_pictures_and_clips_are_folded_and_unfolded_without_loss():
    x = drawn(2, 3, 4, 5, 6)
    assert torch.equal(unfolded(folded(x), 4), x)
