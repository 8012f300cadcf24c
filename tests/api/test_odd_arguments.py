"""Arguments of the wrong kind are told in a sentence of ours, not by whatever trips over them."""

import sys

import numpy as np
import pytest

import hyperframes as hf

FRAMES = np.zeros((20, 8, 8), np.uint8)


def same(frames):
    return frames


def exits(frames):
    sys.exit(3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hf.run({}, same), "a pipeline needs a source: got an empty mapping"),
        (lambda: hf.operator(halo=1.5)(same), r"expected a whole number or \(before, after\), got 1.5"),
        (lambda: hf.operator(halo="2")(same), r"expected a whole number or \(before, after\), got '2'"),
        (lambda: hf.operator(halo=(1, 2, 3))(same), r"expected a whole number or \(before, after\), got \(1, 2, 3\)"),
        (lambda: hf.open(FRAMES)["a"], "frame positions are whole numbers: got np.str_\\('a'\\)"),
        (lambda: hf.open(FRAMES)[1.5], "frame positions are whole numbers"),
        (lambda: hf.open(FRAMES).frames([0.5]), "frame positions are whole numbers"),
        (lambda: hf.open(FRAMES)[::0], "frames cannot be taken in steps of 0"),
        (lambda: next(hf.open(FRAMES).hyperframes(size="a")), "expected at least 1, got 'a'"),
        (lambda: next(hf.open(FRAMES).hyperframes(size=2, halo="a")), "got 'a'"),
        (lambda: next(hf.open(FRAMES).hyperframes(size=2, boundary=3)), "a boundary is a name: got 3"),
        (lambda: hf.Pipeline.from_toml(5), "the configuration is text: got int"),
        (lambda: hf.run(FRAMES, exits), "SystemExit: 3"),
        (lambda: hf.pack([1, 2]), "expected frames, got int"),
    ],
)
def test_odd_arguments_are_told_in_a_sentence(call, sentence):
    with pytest.raises(hf.HyperframesError, match=sentence):
        call()
