"""Operators whose results show every frame they were given, exactly; workers of any executor can import them."""

from fractions import Fraction

import numpy as np

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output
from hyperframes.sources.array import ArraySource


class WindowSum(Operator):
    """Sum over an asymmetric window, as int64: shows each frame it was given, exactly."""

    name = "window_sum"

    def __init__(self, before, after):
        self.before, self.after = before, after

    def configure(self, inputs):
        spec = inputs[0].replace(dtype=np.dtype(np.int64), pixel_format="")
        return Contract((Output("frames", "frames", spec),), hf.Halo(self.before, self.after))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        assert not any(plane.flags.writeable for plane in given.planes)
        assert given.core == slice(self.before, self.before + len(view))
        assert len(given) == self.before + len(view) + self.after
        for source, target in zip(given.planes, view.planes, strict=True):
            for t in range(len(view)):
                target[t] = source[t : t + self.before + 1 + self.after].sum(axis=0, dtype=np.int64)


class RunningSum(Operator):
    """Sequential: the sum of all frames so far."""

    name = "running_sum"

    def configure(self, inputs):
        spec = inputs[0].replace(dtype=np.dtype(np.int64), pixel_format="")
        return Contract((Output("frames", "frames", spec),), dependency="sequential")

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        total = state["total"] if state else np.zeros(given.planes[0].shape[1:], np.int64)
        for t in range(len(view)):
            total = total + given.core_planes[0][t]
            view.planes[0][t] = total
        return {"total": total}


class Resample(Operator):
    """Output j is the input frame at j / ratio."""

    name = "resample"

    def __init__(self, ratio):
        self.ratio = Fraction(ratio)

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0], ratio=self.ratio),))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        start = given.header.core[0]
        for j in range(view.start, view.stop):
            view.planes[0][j - view.start] = given.core_planes[0][int(j / self.ratio) - start]


class WindowMax(Operator):
    """Windows of fixed length and hop: their maximum over real frames."""

    name = "window_max"

    def __init__(self, length, hop):
        self.length, self.hop = length, hop

    def configure(self, inputs):
        return Contract((Output("windows", "windows", inputs[0], length=self.length, hop=self.hop),))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        first = given.header.core[0]
        for j in range(view.start, view.stop):
            at = j * self.hop - first
            real = given.mask[at : at + self.length]
            view.planes[0][j - view.start] = given.planes[0][at : at + self.length][real].max(axis=0)


def frames_of(count, shape=(3, 2), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


class Streamed(ArraySource):
    """An array that does not say that it is one."""

    def arrays(self):
        return None


def as_stream(frames):
    """A source that hides its arrays, so that frames go through slabs."""
    return Streamed(frames)
