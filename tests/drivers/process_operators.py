"""Operators for worker processes: some behave, some crash, some hold Python's lock. Light to import, as workers do."""

import os
import signal
import time

import numpy as np

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output


class Same(Operator):
    """Passes frames through; what subclasses do first is what they are for."""

    name = "same"
    dependency = "independent"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),), dependency=self.dependency)

    def apply(self, inputs, outputs, state, prepared):
        made = self.before(inputs[0], state)
        outputs[0].data[...] = inputs[0].core_data
        return made

    def before(self, hyperframe, state):
        return None


class RaisesOn(Same):
    name = "raises_on"

    def __init__(self, frame, what="plain"):
        self.frame, self.what = frame, what

    def before(self, hyperframe, state):
        start, stop = hyperframe.header.core
        if start <= self.frame < stop:
            raise {"plain": ValueError, "odd": OddError}[self.what]("the lamp is off")


class OddError(Exception):
    """Goes into a pickle and does not come out."""

    def __init__(self, what, *, more=None):
        super().__init__(what, 1, 2)


class DiesOn(Same):
    """Ends its process on the core that holds `frame`: by a signal, or by itself with an exit code."""

    name = "dies_on"

    def __init__(self, frame, how=signal.SIGSEGV, once=""):
        self.frame, self.how, self.once = frame, how, once

    def before(self, hyperframe, state):
        start, stop = hyperframe.header.core
        if start <= self.frame < stop and not (self.once and os.path.exists(self.once)):
            if self.once:
                open(self.once, "x").close()
            if isinstance(self.how, signal.Signals):
                os.kill(os.getpid(), self.how)
                time.sleep(60)  # it takes a moment to be delivered
            os._exit(self.how)


class LeavesAChild(DiesOn):
    """Dies, while a process that it forked holds on to all that it had open."""

    name = "leaves_a_child"

    def before(self, hyperframe, state):
        start, stop = hyperframe.header.core
        if start <= self.frame < stop and not os.path.exists(self.once) and os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        return super().before(hyperframe, state)


class FailsToPrepare(Same):
    name = "fails_to_prepare"

    def prepare(self, worker):
        raise FileNotFoundError(2, "No such file or directory", "model.onnx")


class ExitsInPrepare(Same):
    name = "exits_in_prepare"

    def prepare(self, worker):
        os._exit(7)


class CannotBeMade(Same):
    """Can be pickled, and not be made from that."""

    name = "cannot_be_made"

    def __setstate__(self, state):
        raise RuntimeError("not in this process")

    def __init__(self):
        self.full = True  # without state, none would be set


class OddState(Same):
    name = "odd_state"
    dependency = "sequential"

    def before(self, hyperframe, state):
        return {"lock": (t for t in ())}


class Brighter(Operator):
    """Adds the mean that records tell of each frame to it."""

    name = "brighter"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0].replace(dtype=np.dtype(np.float64))),))

    def apply(self, inputs, outputs, state, prepared):
        frames, records = inputs
        assert records.records.index.tolist() == list(range(*records.header.core))
        outputs[0].data[...] = frames.core_data + records.records.columns["mean"][:, None, None]


class Threads(Operator):
    """Writes how many threads libraries have: OpenCV, numba, and what the environment says to BLAS."""

    name = "threads"

    def configure(self, inputs):
        spec = hf.FrameSpec.array((4,), np.int64)
        return Contract((Output("frames", "frames", spec),))

    def prepare(self, worker):
        import cv2
        import numba

        return cv2.getNumThreads(), numba.config.NUMBA_NUM_THREADS

    def apply(self, inputs, outputs, state, prepared):
        import cv2

        outputs[0].data[...] = (*prepared, cv2.getNumThreads(), int(os.environ["OPENBLAS_NUM_THREADS"]))


class Slow(Same):
    """Counts in Python, which holds the lock, and tells who it is in a file of its own."""

    name = "slow"

    def __init__(self, steps=30_000, folder=""):
        self.steps, self.folder = steps, folder

    def prepare(self, worker):
        if self.folder:
            open(os.path.join(self.folder, str(os.getpid())), "w").close()

    def before(self, hyperframe, state):
        total = 0
        for i in range(self.steps):
            total += i
