"""Inspection: faults that were planted are found, whole models pass, and pictures show what they say."""

import cv2
import numpy as np
import pytest
import torch
from tests.neural.test_train import CONFIG, configured, samples  # noqa: F401 - a fixture

from hyperframes import neural
from hyperframes.errors import FrameError
from hyperframes.neural import pictures
from hyperframes.neural.inspect import _attention_check, _density_check, _prototype_check, trigger_offset, warp_health
from hyperframes.neural.profiling import profiled
from hyperframes.neural.train import fit, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow  # torch takes seconds to import


@pytest.mark.requirement("D113", "D131")
def test_a_warp_that_never_moved_is_told_from_one_that_jumps():
    warp = neural.AdaptiveGridWarp(2, (4, 8, 8), (4, 4, 2))
    x = torch.rand(1, 2, 4, 8, 8)
    assert warp_health(warp, warp.control(x)) == (1.0, 0.0)
    control = torch.zeros(1, 3, *warp.grid)
    control[:, :, 0, 0, 0], control[:, :, 0, 0, 1] = warp.limit.reshape(1, 3), -warp.limit.reshape(1, 3)
    still, jump = warp_health(warp, control)
    assert still == pytest.approx(1 - 2 / 32)
    assert jump == pytest.approx(2)


@pytest.mark.requirement("D96")
def test_attention_logits_beyond_their_bound_are_bad():
    class Seen:
        logits = (3.0,)

    assert _attention_check(Seen).verdict == "good"
    for wrong in (2e4, float("nan")):
        Seen.logits = (wrong,)
        assert _attention_check(Seen).verdict == "bad"
    attention = neural.LocalManifoldAttention(8, (2, 4, 4))
    assert attention.largest_logit(100 * torch.randn(1, 8, 2, 4, 4)) <= 2**0.5 + 1e-4  # normalised: sqrt(d) at most


@pytest.mark.requirement("D97")
def test_prototypes_that_answer_nowhere_are_bad():
    class Net:
        prototypes = neural.TemporalGradientProjection(4, 1)

    still = torch.zeros(1, 6, 3, 4, 4)
    moving = still.clone()
    moving[:, 2] = torch.arange(3.0).reshape(1, 3, 1, 1)
    verdicts = [_prototype_check(Net, neural.HyperTensor(x, 2), trained=True).verdict for x in (moving, still)]
    assert verdicts == ["good", "bad"]


@pytest.mark.requirement("D98")
def test_a_rate_of_another_sensor_is_bad():
    encoder = neural.EDH(width=0.125, size=(4, 16, 16))
    grid = torch.zeros(1, 2, 4, 16, 16)
    grid[..., ::4] = 2.0
    assert _density_check(encoder, grid).measured.endswith("never fitted")
    encoder.density.fit(grid)
    assert _density_check(encoder, grid).verdict == "good"
    assert _density_check(encoder, 5 * grid).verdict == "bad"


@pytest.mark.requirement("D99")
def test_the_offset_of_a_trigger_is_measured_below_a_frame():
    rate, shift = 25, 2.5  # frames a second of arrays, frames
    time = np.arange(80)

    def flashes(t):
        light = sum(np.exp(-(((t - c) / 3) ** 2)) for c in (20, 33, 60))
        return np.repeat((40 + 180 * light).astype(np.uint8)[:, None, None], 16, 1).repeat(16, 2)

    assert trigger_offset(flashes(time), flashes(time), most_seconds=10) == pytest.approx(0, abs=1e-6)
    assert trigger_offset(flashes(time), flashes(time - shift), most_seconds=10) == pytest.approx(
        shift / rate, abs=0.1 / rate
    )
    assert trigger_offset(flashes(time), np.full((80, 16, 16), 9, np.uint8)) is None


@pytest.mark.requirement("D109", "D112")
def test_an_animation_has_every_slice_for_200_ms():
    slices = np.stack([np.full((8, 12), 50 * i, np.uint8) for i in range(4)])
    gif = pictures.animation(slices)
    assert gif.startswith(b"GIF89a")
    assert b"NETSCAPE2.0" in gif  # over and over
    delays = [gif[i + 4] + 256 * gif[i + 5] for i in range(len(gif) - 8) if gif[i : i + 3] == b"\x21\xf9\x04"]
    assert delays == [20] * 4  # hundredths of a second


def test_curvature_is_shown_from_black_to_white():
    shown = pictures.hot(np.array([[0, 128, 255]], np.uint8))
    assert shown[0, 0].tolist() == [0, 0, 0]
    assert shown[0, 2].tolist() == [255, 255, 255]
    assert shown[0, 1, 0] > shown[0, 1, 2]  # red before blue


def test_a_caption_stands_above_a_picture_and_over_each_panel():
    picture = np.full((32, 520), 128, np.uint8)
    sheet = pictures.captioned(picture, "curvature", ["slice 1 of 2", "slice 2 of 2"])
    top = len(sheet) - 32 - 8
    assert (sheet[top : top + 32, 8:528] == 128).all()
    assert sheet.shape[2] == 3
    first, second = sheet[22:top, :260], sheet[22:top, 260:]
    assert first.min() < 100
    assert second.min() < 100
    narrow = pictures.captioned(picture[:, :16], "a title that is wider than its picture")
    assert narrow.shape[1] > 200
    assert (narrow[:, -8:] == 255).all()  # the title is not cut off


@pytest.mark.requirement("D95", "D110", "D111", "D130")
def test_a_trained_model_is_drawn_and_judged(samples, tmp_path):  # noqa: F811 - the fixture
    from hyperframes.neural.inspect import inspect

    done = fit(configured(samples, "inspected"))
    found = inspect(done.last, str(samples / "3.npy"), tmp_path / "out", start=2)
    names = {path.name for path in found.pictures}
    assert names == {"space.png", "curvature.png", "time.png", "time.gif", "warp.png"}
    assert cv2.imread(str(tmp_path / "out/warp.png")).std() > 5
    assert sum(found.answer.values()) == pytest.approx(1)
    verdicts = {check.name: check.verdict for check in found.checks}
    assert list(verdicts) == ["grid warp", "attention", "prototypes", "event rate", "trigger"]
    assert verdicts["attention"] == "good"
    assert verdicts["event rate"] == "not there"
    assert found.to_json()["shape"] == list(found.tensor.data.shape)
    untrained = tmp_path / "untrained.safetensors"
    checkpoint = load_checkpoint(done.last)
    checkpoint.step = 0
    save_checkpoint(checkpoint, untrained)
    assert inspect(untrained, str(samples / "3.npy"), tmp_path / "out").checks[0].verdict == "untrained"


@pytest.mark.requirement("D102", "D132", "D133")
def test_an_answer_is_told_operator_by_operator():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 5), torch.nn.ReLU())
    costs = profiled(net, torch.rand(1, 3, 64, 64))
    by_name = {cost.name: cost for cost in costs}
    assert any("conv" in cost.name for cost in costs[:3])
    assert by_name["conv2d"].calls == by_name["relu"].calls == 1
    assert sum(cost.allocated_bytes for cost in costs) >= 2 * 32 * 60 * 60 * 4  # what both give
    assert [c.milliseconds for c in costs] == sorted((c.milliseconds for c in costs), reverse=True)


def test_a_baseline_has_nothing_to_inspect(samples, tmp_path):  # noqa: F811 - the fixture
    from hyperframes.neural.inspect import inspect

    text = CONFIG.replace('"mch"', '"average"').replace("width = 0.125, prototypes = 2", "width = 0.0625")
    done = fit(configured(samples, "plain_baseline", text.replace("steps = 4", "steps = 1")))
    with pytest.raises(FrameError, match="makes no hyperframe tensor to inspect"):
        inspect(done.last, str(samples / "3.npy"), tmp_path)
