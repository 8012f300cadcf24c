"""The tensor's two forms, its file, and its pictures."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import FrameError, SourceError
from hyperframes.neural import HyperTensor, curvature


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.requirement("W8")
@pytest.mark.requirement("D30")
@given(st.integers(1, 3), st.integers(0, 4), st.integers(0, 3), st.integers(1, 5))
def test_packing_holds_space_once_and_time_whole(n, space, time, slices):
    if space + time == 0:
        return
    x = drawn(n, space + time, slices, 3, 2)
    x[:, :space] = x[:, :space, :1]
    tensor = HyperTensor(x, space)
    packed = tensor.packed()
    assert packed.shape == (n, space + time * slices, 3, 2)
    for c in range(time):
        for w in range(slices):
            torch.testing.assert_close(packed[:, space + c * slices + w], x[:, space + c, w], rtol=0, atol=0)
    back = HyperTensor.unpacked(packed, space, slices)
    torch.testing.assert_close(back.data, x, rtol=1e-6, atol=1e-6)
    assert back.split == (space, time)


@pytest.mark.requirement("D26")
@pytest.mark.requirement("D27")
@pytest.mark.requirement("D28")
@pytest.mark.parametrize(
    ("space", "time", "side", "packed"), [(128, 64, 32, 384), (256, 64, 16, 512), (128, 32, 8, 256)]
)
def test_the_three_types_have_their_sizes(space, time, side, packed):
    tensor = HyperTensor(torch.zeros(1, space + time, 4, side, side), space)
    assert tensor.packed().shape == (1, packed, side, side)


@pytest.mark.requirement("D144")
@pytest.mark.requirement("D151")
@pytest.mark.parametrize("bent", [True, False])
def test_a_file_gives_back_everything(tmp_path, bent):
    x = drawn(2, 5, 4, 3, 3)
    tensor = HyperTensor(x, 3, "mch", curvature(x) if bent else None, "in.mp4", ((0, 16), (8, 24)))
    tensor.save(tmp_path / "x.safetensors")
    back = HyperTensor.load(tmp_path / "x.safetensors")
    torch.testing.assert_close(back.data, x, rtol=0, atol=0)
    assert (back.space, back.kind, back.source, back.ranges) == (3, "mch", "in.mp4", ((0, 16), (8, 24)))
    assert (back.curvature is not None) == bent


@pytest.mark.parametrize("data", [b"", b"no file of tensors", b"\x80\x04K\x01.", b"\xff" * 64])
def test_another_file_is_refused_in_a_sentence(tmp_path, data):
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(SourceError, match="cannot read a hyperframe tensor from"):
        HyperTensor.load(tmp_path / "x.safetensors")


def test_tensors_without_our_header_are_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"data": torch.zeros(1, 1, 1, 1, 1)}, tmp_path / "x.safetensors")
    with pytest.raises(SourceError, match="holds no hyperframe tensor of version 1: got None"):
        HyperTensor.load(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: HyperTensor(torch.zeros(1, 2, 3, 4), 1), r"is \(N, C, W_t, H, W\) of floats: got \(1, 2, 3, 4\)"),
        (lambda: HyperTensor(torch.zeros(1, 2, 3, 4, 4, dtype=torch.int32), 1), "of floats"),
        (lambda: HyperTensor(torch.zeros(1, 2, 3, 4, 4), 3), "expected 0 to 2, got 3"),
        (
            lambda: HyperTensor(torch.zeros(1, 2, 3, 4, 4), 1, ranges=((0, 1), (1, 2))),
            "one range an item: expected 1, got 2",
        ),
        (lambda: HyperTensor.unpacked(torch.zeros(1, 6, 4, 4), 1, 4), "space plus a multiple of the slices"),
    ],
)
def test_what_is_no_hyperframe_tensor_is_refused(make, sentence):
    with pytest.raises(FrameError, match=sentence):
        make()


@pytest.mark.requirement("D110")
@pytest.mark.requirement("D111")
def test_pictures_run_from_black_to_white_and_flat_ones_are_black():
    x = drawn(1, 6, 4, 8, 8)
    maps = HyperTensor(x, 4, curvature=curvature(x)).pictures()
    assert {name: picture.shape for name, picture in maps.items()} == {
        "space": (8, 8), "time": (4, 8, 8), "curvature": (4, 8, 8),
    }  # fmt: skip
    assert all(picture.dtype == np.uint8 and picture.max() == 255 for picture in maps.values())
    assert not HyperTensor(torch.ones(1, 2, 2, 3, 3), 1).pictures()["time"].any()
