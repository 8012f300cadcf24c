"""Drawing records: what is drawn where, and that nothing else changes."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.errors import PipelineError
from hyperframes.frames import Field, FrameSpec, RecordSpec
from hyperframes.operators import Contract, Operator, Output
from hyperframes.operators.overlay import Overlay

RGB = FrameSpec.picture(60, 80, "rgb24")


@dataclass(frozen=True)
class Boxes(Operator):
    """One box in every other frame, moving right; frames of any shape and dtype, no halo."""

    name = "boxes"
    score: float = 0.9

    def configure(self, inputs):
        fields = (Field("box", "f4", (4,)), Field("label", "i4"), Field("score", "f4"))
        return Contract((Output("records", "records", RecordSpec(fields)),))

    def apply(self, inputs, outputs, state, prepared):
        for index in range(*inputs[0].header.core):
            if index % 2 == 0:
                outputs[0].add(index, box=[[10 + index, 20, 30 + index, 50]], label=1, score=self.score)


def frames(count=6):
    return np.full((count, 60, 80, 3), 100, np.uint8)


@pytest.mark.parametrize("size", [1, 4, 6])
def test_boxes_are_drawn_on_their_frames_whatever_the_size(size):
    found = hf.run(frames(), [Boxes(), Overlay()], size=size).array
    for index, picture in enumerate(found):
        changed = (picture != 100).any(axis=-1)
        if index % 2:
            assert not changed.any()
            continue
        assert changed[20, 10 + index : 31 + index].all()
        assert changed[20:51, 10 + index].all()
        assert not changed[25:45, 15 + index : 26 + index].any()
    np.testing.assert_array_equal(found, hf.run(frames(), [Boxes(), Overlay()], size=3).array)


def test_boxes_of_too_low_a_score_are_left_out():
    assert (hf.run(frames(), [Boxes(0.4), Overlay(least=0.5)]).array == 100).all()


def test_numbers_become_lines_of_text():
    found = hf.run(frames(), ["measure", "overlay"]).array
    assert found.shape == frames().shape
    assert (found[:, :30] != 100).any(axis=(1, 2, 3)).all()


def test_it_goes_into_a_video(tmp_path):
    hf.run(frames(), [Boxes(), "overlay"], to=str(tmp_path / "out.mp4"))
    assert len(hf.open(tmp_path / "out.mp4")[0:6]) == 6


def test_names_stand_for_numbers(tmp_path):
    (tmp_path / "names.json").write_text(json.dumps(["cat", "dog"]))
    named = hf.run(frames(), [Boxes(), Overlay(names=str(tmp_path / "names.json"))]).array
    plain = hf.run(frames(), [Boxes(), Overlay()]).array
    assert (named != plain).any()


def refusal(inputs, **parameters):
    with pytest.raises(PipelineError) as caught:
        Overlay(**parameters).configure(inputs)
    return str(caught.value)


def test_what_does_not_fit_is_refused(tmp_path):
    numbers = RecordSpec((Field("mean", "f8"),))
    assert "reads pictures and records of them" in refusal((RGB,))
    assert "draws on pictures: expected rgb24" in refusal((FrameSpec.array((3,), "f4"), numbers))
    assert "expected 4 numbers in box 'box', got shape (3,)" in refusal((RGB, RecordSpec((Field("box", "f4", (3,)),))))
    assert "finds nothing to draw" in refusal((RGB, RecordSpec((Field("map", "f4", (3, 3)),))))
    assert "cannot read names" in refusal((RGB, numbers), names=str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{}")
    assert "is no list of names" in refusal((RGB, numbers), names=str(tmp_path / "bad.json"))
    assert "thickness is a whole number" in refusal((RGB, numbers), thickness=0)
