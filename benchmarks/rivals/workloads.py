"""What is measured: each workload's contestants, its length, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A claim about two labels of one workload."""

    ours: str
    rival: str
    factor: float
    """What the rival's time over ours should be at least."""
    less: str | None = None
    """A label whose time is taken off the rival's first: what it spends on being given its frames."""
    cpu: bool = True
    """Whether CPU time tells it too: not where the work is the same on more workers."""


@dataclass(frozen=True)
class Workload:
    """One comparison, run interleaved."""

    name: str
    title: str
    contestants: tuple[str, ...]
    targets: tuple[Target, ...] = ()
    unit: str = "frames"
    reference: str = "hyperframes"
    """The label with whose results the others' are compared."""
    num_frames: int = 600
    """Of the clip."""
    keep: str = "some"
    """Which results' samples are compared: some, every fifth, all."""
    dtype: str = "u1"
    in_memory: bool = False
    """Whether the frames are held in memory instead of being decoded."""
    kind: str = "time"
    """time, memory, or position (results only)."""


MEMORY_FRAMES = 192

WORKLOADS = (
    Workload(
        "memory_rgb",
        "Mean of 5 frames, 1080p RGB in memory",
        ("hyperframes", "ffmpeg", "vapoursynth", "dask"),
        (
            Target("hyperframes", "limit: copy", 0.8),
            Target("hyperframes", "ffmpeg tmix", 20, less="ffmpeg, reading only"),
            Target("hyperframes", "VapourSynth AverageFrames", 12),
            Target("hyperframes", "VapourSynth zsmooth", 2),
            Target("hyperframes", "dask, our kernel", 5),
        ),
        in_memory=True,
    ),
    Workload(
        "file_yuv",
        "File to mean of 5 frames in YUV, nothing written",
        ("hyperframes", "pyav", "ffmpeg", "vapoursynth"),
        (
            Target("hyperframes", "limit: decoding only", 0.92),
            Target("hyperframes", "ffmpeg tmix", 2),
            Target("hyperframes", "VapourSynth AverageFrames", 1.8),
            Target("hyperframes", "VapourSynth zsmooth", 1.15),
        ),
    ),
    Workload(
        "file_rgb",
        "File to mean of 5 frames in RGB, nothing written",
        ("hyperframes", "pyav", "ffmpeg", "vapoursynth", "opencv", "dask"),
        (
            Target("hyperframes", "ffmpeg tmix", 3.3),
            Target("hyperframes", "VapourSynth AverageFrames", 2.4),
            Target("hyperframes", "OpenCV + NumPy mean", 6),
            Target("hyperframes", "dask, our kernel", 3.3),
        ),
        num_frames=240,
    ),
    Workload(
        "h264_veryfast",
        "File to mean of 5 frames to H.264, veryfast",
        ("hyperframes", "ffmpeg"),
        (Target("hyperframes veryfast", "ffmpeg veryfast", 1.15),),
        reference="exact result",
        num_frames=240,
        keep="every fifth",
    ),
    Workload(
        "h264_ultrafast",
        "File to mean of 5 frames to H.264, ultrafast",
        ("hyperframes", "ffmpeg"),
        (Target("hyperframes ultrafast", "ffmpeg ultrafast", 1.4),),
        reference="exact result",
        num_frames=240,
        keep="every fifth",
    ),
    Workload(
        "median_yuv",
        "Median of 5 frames, 1080p YUV in memory",
        ("hyperframes", "ffmpeg", "vapoursynth"),
        (
            Target("hyperframes", "ffmpeg tmedian", 100, less="ffmpeg, reading only"),
            Target("hyperframes", "VapourSynth zsmooth", 2),
        ),
        in_memory=True,
    ),
    Workload(
        "chain",
        "Mean of 5, median of 3, mean of 3, 1080p in memory",
        ("hyperframes",),
        (
            Target("hyperframes, fused and kept", "three runs, arrays between", 1.5),
            Target("hyperframes, fused", "three kernels, arrays reused", 1.5),
        ),
        reference="hyperframes, fused",
        in_memory=True,
    ),
    Workload(
        "scaling",
        "One worker and two, compute-bound (bilateral, 540p RGB)",
        ("hyperframes",),
        (Target("2 workers", "1 worker", 1.8, cpu=False),),
        reference="1 worker",
        in_memory=True,
    ),
    Workload(
        "python_only",
        "An operator in plain Python, which holds the interpreter's lock",
        ("hyperframes",),
        (Target("processes, 2 workers", "processes, 1 worker", 1.8, cpu=False),),
        reference="threads, 1 worker",
        in_memory=True,
    ),
    Workload(
        "sampling",
        "Non-uniform frames of a 20 s clip, opened anew, to RGB",
        ("hyperframes", "pyav", "torchcodec", "decord2"),
        (
            Target("hyperframes, RGB", "torchcodec, all at once", 1.3),
            Target("hyperframes, RGB", "torchcodec, one by one", 1.3),
            Target("hyperframes, RGB", "decord2, all at once", 2.4),
            Target("hyperframes, RGB", "PyAV, a seek for each", 12),
        ),
        reference="PyAV, a seek for each",
    ),
    Workload(
        "sensor_5",
        "Mean of 5 rows over 10 million",
        ("hyperframes", "pandas"),
        (Target("hyperframes", "pandas rolling", 2), Target("hyperframes", "pandas rolling, numba", 2)),
        unit="rows",
        dtype="f8",
    ),
    Workload(
        "sensor_51",
        "Mean of 51 rows over 10 million",
        ("hyperframes", "pandas"),
        (Target("hyperframes", "pandas rolling", 2), Target("hyperframes", "pandas rolling, numba", 2)),
        unit="rows",
        dtype="f8",
    ),
    Workload(
        "arrays_out",
        "1080p RGB in memory written as zarr and npy",
        ("hyperframes", "zarr"),
        (
            Target("hyperframes, zarr", "zarr, default", 1),
            Target("hyperframes, zarr", "zarr, no look, safe on disk", 1),
            Target("hyperframes, zarr", "limit: disk", 0.9, cpu=False),
            Target("hyperframes, npy", "NumPy save, safe on disk", 1),
            Target("hyperframes, npy", "NumPy open_memmap", 1),
            Target("hyperframes, npy", "limit: disk", 0.9, cpu=False),
        ),
        reference="hyperframes, npy",
        in_memory=True,
    ),
    Workload(
        "peak_memory",
        "Peak memory of file to mean of 5 frames",
        ("hyperframes", "ffmpeg", "vapoursynth", "pyav", "opencv", "dask", "daft", "ray"),
        unit="bytes",
        num_frames=240,
        kind="memory",
    ),
    *(
        Workload(
            f"position_{word}",
            f"Every seventh frame by its position: {title}",
            ("pyav", "hyperframes", "opencv", "torchcodec", "decord2"),
            reference="PyAV from the start",
            keep="all",
            kind="position",
        )
        for word, title in {
            "steady": "MP4, steady rate",
            "variable": "MP4, variable rate",
            "edit_list": "MP4 with an edit list",
            "ts": "MPEG-TS",
        }.items()
    ),
)

ELSEWHERE = (
    Workload(
        "cluster",
        "Long 1080p file to mean of 5 frames, H.264 to H.264, on Ray",
        (),
        (Target("ray, 2 workers", "threads, 2 workers", 0.9),),
    ),
)
"""What other benchmarks than the runner's measure, and leave beside its results."""

PACKAGES = {
    "hyperframes": ("hyperframes-engine", "numpy", "numba", "av", "opencv-python-headless", "zarr"),
    "ffmpeg": (),
    "vapoursynth": ("vapoursynth", "vapoursynth-lsmas", "vapoursynth-zsmooth", "numpy"),
    "dask": ("dask", "numpy", "numba", "av"),
    "opencv": ("opencv-python-headless", "numpy"),
    "pyav": ("av", "numpy"),
    "torchcodec": ("torchcodec", "torch", "numpy"),
    "decord2": ("decord2", "numpy"),
    "pandas": ("pandas", "numpy", "numba"),
    "zarr": ("zarr", "numcodecs", "numpy"),
    "daft": ("daft", "av"),
    "ray": ("ray", "decord2"),
}
"""Whose versions stand beside the results."""


def find(name: str) -> Workload:
    """Return the workload of that name.

    Raises
    ------
    LookupError
        If there is none.
    """
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    known = ", ".join(workload.name for workload in WORKLOADS)
    raise LookupError(f"no workload named {name!r}; known: {known}")
