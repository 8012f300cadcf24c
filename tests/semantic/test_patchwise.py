"""Operators on chosen squares: the same as on whole pictures there, untouched elsewhere, and work only for what is chosen."""

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.semantic.scenes import footage, moving

import hyperframes as hf
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import Contract, Operator, View, Worker, create, frames_out
from hyperframes.packing import Halo, view
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.registry import operators
from hyperframes.semantic.patchwise import Patchwise, Regions
from hyperframes.semantic.regions import region_confidence, select_patches
from hyperframes.sinks import MemorySink
from hyperframes.testing.operators import run_split

MAPS = FrameSpec.array((64, 64), np.float32)


@dataclass(frozen=True)
class Blur(Operator):
    """The mean of 5 x 5 pixels, and how many pixels it was asked for in all."""

    name: ClassVar[str] = "blur5"
    asked: ClassVar[list[int]] = []

    def configure(self, inputs):
        return Contract((frames_out(inputs),))

    def apply(self, inputs, outputs, state, prepared):
        ((hyperframe,), (out,)) = inputs, outputs
        self.asked.append(
            hyperframe.core_data[..., 0].size if hyperframe.core_data.ndim == 4 else hyperframe.core_data.size
        )
        for t, picture in enumerate(hyperframe.core_data):
            out.data[t] = cv2.blur(picture, (5, 5), borderType=cv2.BORDER_REPLICATE)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(operators._registered, "blur5", Blur)


def run_on(operator, pictures, maps, pixel_format):
    """Apply `operator` to all pictures at once."""
    spec = FrameSpec.picture(*pictures.shape[1:3], pixel_format)
    contract = operator.configure((spec, MAPS))
    pts = np.arange(len(pictures))
    ports = [next(iter(view((a,), pts, s, len(a), Halo()))) for a, s in ((pictures, spec), (maps, MAPS))]
    out = View(contract.outputs[0], 0, len(pictures), (np.full_like(pictures, 7),))
    operator.apply(tuple(ports), (out,), None, operator.prepare(Worker()))
    return out.data


@pytest.mark.requirement("C93")
@settings(max_examples=25)
@given(
    st.integers(0, 1000),
    st.sampled_from([(37, 53), (64, 64), (20, 90)]),
    st.sampled_from(["gray", "rgb24"]),
    st.integers(4, 40),
    st.sampled_from([0, 3]),
)
def test_chosen_squares_are_those_of_the_whole_picture_and_the_others_untouched(seed, size, kind, side, most):
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 256, (3, *size, *((3,) if kind == "rgb24" else ())), np.uint8)
    maps = (
        cv2.resize(random.random((8, 8), np.float32), (64, 64))[None] * np.array([1, 0, 0.6], np.float32)[:, None, None]
    )
    got = run_on(Patchwise("blur5", side=side, margin=2, most=most), pictures, maps, kind)
    for picture, confidence, found in zip(pictures, maps, got, strict=True):
        whole = cv2.blur(picture, (5, 5), borderType=cv2.BORDER_REPLICATE)
        wanted = picture.copy()
        for rows, columns in select_patches(confidence, size, side, most=most or None).windows():
            wanted[rows, columns] = whole[rows, columns]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.requirement("C93")
def test_what_is_not_chosen_costs_no_work():
    pictures, maps = np.zeros((4, 128, 128), np.uint8), np.zeros((4, 64, 64), np.float32)
    maps[0, :8, :8] = maps[2, 40:44, 40:44] = 1
    Blur.asked.clear()
    run_on(Patchwise("blur5", side=16, margin=2), pictures, maps, "gray")
    assert Blur.asked == [(1 + 1) * 20 * 20]  # of 4 x 64 squares
    Blur.asked.clear()
    run_on(Patchwise("blur5", side=16, margin=2), pictures, 0 * maps, "gray")
    assert Blur.asked == []


@pytest.mark.requirement("C103")
def test_maps_of_frames_are_the_same_for_every_size_and_follow_what_moves():
    frames = footage(moving(1, 9, 3))
    spec, pts = FrameSpec.picture(48, 64, "gray"), np.arange(9)
    whole = run_split(Regions(), (frames,), pts, spec, size=9)["regions"].data
    for size in (1, 2, 5):
        np.testing.assert_array_equal(run_split(Regions(), (frames,), pts, spec, size=size)["regions"].data, whole)
    np.testing.assert_array_equal(whole[0], region_confidence(None, frames[0]))
    disc = (8 + 3 * 5) % 64
    assert whole[5][24:40, disc - 6 : disc + 6].mean() > 2 * whole[5].mean()


def test_a_chain_gives_both_pictures_and_maps_to_it():
    frames, out = footage(moving(1, 12, 2)), MemorySink()
    hf.run(Pipeline.of(hf.open(frames), ["regions", "patchwise:operator=blur5,side=16,margin=2"], out))
    maps, plain = MemorySink(), MemorySink()
    stages = [Stage("regions", Regions()), Stage("p", Patchwise("blur5", side=16, margin=2), ("source", "regions"))]
    hf.run(Pipeline.of(hf.open(frames), stages, {"regions": maps, "p": plain}, size=5))
    np.testing.assert_array_equal(out.result.data, plain.result.data)
    assert 0 < (out.result.data != frames).mean() < 1


def test_operators_that_need_whole_frames_are_refused():
    pictures = FrameSpec.picture(48, 64, "gray")
    with pytest.raises(PipelineError, match="cannot run 'temporal_mean' on squares: expected an independent operator"):
        create("patchwise:operator=temporal_mean").configure((pictures, MAPS))
    with pytest.raises(PipelineError, match="reads pictures and one map of"):
        create("patchwise:operator=bilateral").configure((pictures, pictures))
    with pytest.raises(PipelineError, match="works on pictures with a luma plane"):
        Regions().configure((FrameSpec.picture(8, 8, "rgb24"),))
