"""The command line as users meet it: as a process of its own, or quicker, in this one with its output caught."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

from hyperframes.cli._app import app
from hyperframes.cli._show import exit_code_of

MAIN = "from hyperframes.cli import main; main()"


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The sentence after ``error:``."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return line.removeprefix("error: ")

    @property
    def hint(self) -> str:
        """The sentence after ``hint:``, which follows the error."""
        lines = self.err.splitlines()
        assert [line.partition(":")[0] for line in lines[-2:]] == ["error", "hint"], self.err
        return lines[-1].removeprefix("hint: ")


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYPERFRAMES_DEBUG", raising=False)

    def run(*arguments):
        code = exit_code_of(app, [str(argument) for argument in arguments])
        caught = capfd.readouterr()
        return Outcome(code, caught.out, caught.err)

    return run


@pytest.fixture
def spawn(tmp_path):
    """Start a command as a process of its own."""

    def start(*arguments, python_path="", **options):
        environment = {**os.environ, "PYTHONPATH": str(python_path), **options.pop("env", {})}
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=options.pop("text", True),
            cwd=options.pop("cwd", tmp_path),
            env=environment,
            **options,
        )

    return start


def pictures(count=40, height=48, width=64, seed=5) -> np.ndarray:
    """Return (count, height, width) of uint8: noise over a bar that moves, so that every frame differs."""
    frames = np.random.default_rng(seed).integers(40, 80, (count, height, width), np.uint8)
    for t in range(count):
        frames[t, :, (2 * t) % width : (2 * t) % width + 6] = 200
    return frames


def write_clip(path: Path, frames: np.ndarray, rate: int = 25) -> Path:
    """Write `frames` as yuv420p with grey chroma."""
    _, height, width = frames.shape
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "10", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for luma in frames:
            planes = np.concatenate([luma, np.full((height // 2, width), 128, np.uint8)])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """A small real video of 40 frames."""
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", pictures())


@pytest.fixture
def array(tmp_path):
    """A .npy file of 40 grey pictures, quick to read."""
    path = tmp_path / "frames.npy"
    np.save(path, pictures())
    return path


@pytest.fixture
def operators_module(tmp_path, monkeypatch):
    """A module of operators that users might write, right and wrong ones, in a folder that can be imported from."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "own_operators.py").write_text(OWN_OPERATORS)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("own_operators", None)


OWN_OPERATORS = """
import time

import hyperframes as hf


@hf.operator(halo=1)
def slow(frames):
    time.sleep(0.02 * (len(frames) - 2))
    return frames[1:-1]


@hf.operator(halo=1)
def mean3(frames):
    wide = frames.astype("uint16")
    return ((2 * (wide[:-2] + wide[1:-1] + wide[2:]) + 3) // 6).astype("uint8")


@hf.operator(halo=1)
def seam(frames):
    out = frames[1:-1].copy()
    out[0] //= 2
    return out


@hf.operator
def grouped(frames):
    return frames - frames.min()


@hf.operator
def picky(frames):
    if (frames[:, 0, 0] == 255).any():
        raise ValueError("a white corner")
    return frames
"""
