"""Operators for tasks on a cluster: light to import, as tasks do."""

import os
import signal
import time
from pathlib import Path

import numpy as np

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output


@hf.operator(halo=3)
def spread(frames):
    """The largest of seven, less the least."""
    windows = np.lib.stride_tricks.sliding_window_view(frames, 7, axis=0)
    return windows.max(axis=-1) - windows.min(axis=-1)


class Same(Operator):
    """Passes frames through; what subclasses do first is what they are for."""

    name = "same"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        self.before(*inputs[0].header.core)
        for source, target in zip(inputs[0].core_planes, outputs[0].planes, strict=True):
            target[...] = source

    def before(self, start, stop):
        """Do nothing."""


class DiesOn(Same):
    """Kills its process on the core that holds `frame`, until it has done so `times` times."""

    name = "dies_on"

    def __init__(self, frame, notes, times=1):
        self.frame, self.notes, self.times = frame, str(notes), times

    def before(self, start, stop):
        if start <= self.frame < stop:
            for number in range(self.times):
                note = Path(self.notes) / f"died-{number}"
                if not note.exists():
                    note.touch()
                    os.kill(os.getpid(), signal.SIGKILL)


class RaisesOn(Same):
    """Raises on the core that holds `frame`."""

    name = "raises_on"

    def __init__(self, frame):
        self.frame = frame

    def before(self, start, stop):
        if start <= self.frame < stop:
            raise ValueError("the lamp is off")


class Slow(Same):
    """Takes its time over each hyperframe, and notes that it was there."""

    name = "slow"

    def __init__(self, notes, seconds=0.05):
        self.notes, self.seconds = str(notes), seconds

    def before(self, start, stop):
        (Path(self.notes) / f"at-{start}-{os.getpid()}").touch()
        time.sleep(self.seconds)


def peak_bytes():
    """Return the most memory that this process has held at once."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


class Weighed(Same):
    """Notes the most memory that its process has held so far."""

    name = "weighed"

    def __init__(self, notes):
        self.notes = str(notes)

    def before(self, start, stop):
        (Path(self.notes) / str(os.getpid())).write_text(str(peak_bytes()))


class AtNode(Same):
    """Takes its time, and notes at which node of the cluster it is."""

    name = "at_node"

    def __init__(self, notes, seconds=0.05):
        self.notes, self.seconds = str(notes), seconds

    def before(self, start, stop):
        import ray

        (Path(self.notes) / ray.get_runtime_context().get_node_id()).touch()
        time.sleep(self.seconds)


def there(notes):
    """A callback that notes, where results are made, the id and the rows of each picture."""

    def note(result):
        plane = result.value[0] if isinstance(result.value, tuple) else result.value
        with open(notes, "a") as file:
            file.write(f"{result.frame_id} {plane.shape[0]}\n")

    return note


@hf.operator(output={"shape": (), "dtype": "f8"})
def dirty(frames):
    raise ValueError("the lens is dirty")
