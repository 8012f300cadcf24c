"""Hyperframes itself, and the limits of the machine that it is held against: a copy of the frames."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import Case

MEAN = "temporal_mean:radius=2"
CHAIN = ("temporal_mean:radius=2", "temporal_median:radius=1", "temporal_mean:radius=1")
HEAVY = "bilateral"


def contest(workload, inputs):
    """Return the cases of a workload."""
    return {
        "memory_rgb": memory_rgb,
        "file_yuv": lambda i: {"hyperframes": from_file(i, MEAN)},
        "file_rgb": lambda i: {"hyperframes": from_file(i, MEAN, pixel_format="rgb24")},
        "h264_veryfast": lambda i: h264(i, "veryfast"),
        "h264_ultrafast": lambda i: h264(i, "ultrafast"),
        "median_yuv": median_yuv,
        "chain": chain,
        "scaling": scaling,
        "python_only": python_only,
        "sampling": sampling,
        "sensor_5": lambda i: sensor(i, 2),
        "sensor_51": lambda i: sensor(i, 25),
        "peak_memory": peak_memory,
        "arrays_out": arrays_out,
    }.get(workload, lambda i: addressed(i, workload))(inputs)


def in_memory(source, operators, **options):
    """Return the case of a run whose results are dropped."""
    import hyperframes as hf

    def run():
        return hf.run(source, operators, to="null:", **options).frames_out

    return Case(run, lambda: streamed(source, operators, **options))


def streamed(source, operators, **options):
    """Yield the results of a run, a frame at a time."""
    import numpy as np

    import hyperframes as hf

    for clip in hf.stream(source, operators, **options):
        for t in range(len(clip)):
            yield np.concatenate([plane[t].reshape(-1) for plane in clip.planes])


def kept(source, operators, **options):
    """Return the case of a run whose results are one array in memory."""
    import hyperframes as hf

    def run():
        return len(hf.run(source, operators, **options).array)

    return Case(run, lambda: hf.run(source, operators, **options).array)


def from_file(inputs, operators, **options):
    """Return the case of a run over the clip, results dropped."""
    return in_memory(inputs.clip, operators, **options)


def memory_rgb(inputs):
    import numpy as np

    frames = np.load(Path(inputs.memory) / "rgb.npy")
    return {
        "hyperframes": in_memory(frames, MEAN),
        "hyperframes, kept": kept(frames, MEAN),
        "limit: copy": Case(copy(frames, np.zeros_like(frames))),
        "limit: copy to 8 frames, reused": Case(copy(frames, np.zeros_like(frames[:8]))),
    }


def copy(frames, target):
    """Return a function that copies `frames` into `target`, over and over where it is shorter, on two threads."""
    import numpy as np

    pool = ThreadPoolExecutor(2)
    half = frames.shape[1] // 2

    def part(rows):
        for t in range(0, len(frames), len(target)):
            piece = frames[t : t + len(target)]
            np.copyto(target[: len(piece), rows], piece[:, rows])

    def run():
        list(pool.map(part, (slice(0, half), slice(half, None))))
        return len(frames)

    return run


def h264(inputs, preset):
    import av

    from hyperframes.sinks.video import VideoSink

    path = Path(inputs.scratch) / f"hyperframes_{preset}.mp4"

    def run():
        import hyperframes as hf

        return hf.run(inputs.clip, MEAN, to=VideoSink(path, quality=20, preset=preset)).frames_out

    def frames():
        run()
        with av.open(str(path)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for frame in container.decode(video=0):
                yield frame.to_ndarray()

    return {
        f"hyperframes {preset}": Case(run, frames, facts=lambda: {"bytes": path.stat().st_size}),
        "exact result": Case(None, lambda: streamed(inputs.clip, MEAN)),
    }


def median_yuv(inputs):
    import numpy as np

    frames = np.load(Path(inputs.memory) / "yuv.npy")
    return {
        "hyperframes": in_memory(frames, "temporal_median:radius=2"),
        "limit: copy": Case(copy(frames, np.zeros_like(frames))),
    }


def chain(inputs):
    import numpy as np

    import hyperframes as hf

    frames = np.load(Path(inputs.memory) / "yuv.npy")

    def one_after_another():
        result = frames
        for operator in CHAIN:
            result = hf.run(result, operator).array
        return result

    return {
        "hyperframes, fused": in_memory(frames, CHAIN),
        "hyperframes, fused and kept": kept(frames, CHAIN),
        "three runs, arrays between": Case(lambda: len(one_after_another()), one_after_another),
        "three kernels, arrays reused": bare_kernels(frames),
    }


def bare_kernels(frames):
    """Return the case of the same kernels without an engine: whole arrays that are used again, two threads over pixels.

    Each array has room for the frames that stand in beyond its ends, so that no kernel's input has to be put together:
    the input once and for all, results by a copy of the frames at their ends.
    """
    import numpy as np

    from hyperframes.frames import FrameSpec
    from hyperframes.operators import create
    from hyperframes.operators.samplewise import flat

    pool = ThreadPoolExecutor(2)
    spec, num = FrameSpec.array(frames.shape[1:], frames.dtype), len(frames)
    operators = [create(name) for name in CHAIN]
    halos = [operator.configure((spec,)).halo for operator in operators]
    rooms = [np.zeros((halo.total + num, *frames.shape[1:]), frames.dtype) for halo in halos]
    outs = [room[halo.before :][:num] for room, halo in zip(rooms[1:], halos[1:], strict=True)] + [
        np.zeros_like(frames)
    ]
    rooms[0][halos[0].before :][:num] = frames
    kernels = []
    for operator, room, out in zip(operators, rooms, outs, strict=True):
        source = flat(room)
        source.flags.writeable = False  # as the package compiles them
        kernels.append(operator.sample_kernel(source, flat(out)))
    samples = frames[0].size
    cuts = [samples * part // 8 // 2 * 2 for part in range(9)]

    def stand_in(room, halo):
        room[: halo.before] = room[halo.before]
        room[halo.before + num :] = room[halo.before + num - 1]

    def run():
        for kernel, room, halo in zip(kernels, rooms, halos, strict=True):
            stand_in(room, halo)
            list(pool.map(lambda start, stop, kernel=kernel: kernel(start, stop, 0), cuts, cuts[1:]))
        return num

    def results():
        run()
        return outs[-1]

    return Case(run, results)


def scaling(inputs):
    import numpy as np
    from tasks import SCALING_FRAMES

    frames = np.load(Path(inputs.memory) / "rgb.npy")[:SCALING_FRAMES, ::2, ::2].copy()
    return {f"{n} worker{'s' * (n > 1)}": shared(frames, HEAVY, workers=n, size=4) for n in (1, 2)}


def shared(frames, operators, **options):
    """Return the case of a run that tells its scheduler share."""
    import hyperframes as hf

    told = {}

    def run():
        result = hf.run(frames, operators, to="null:", **options)
        told["scheduler_share"] = result.scheduler_share
        return result.frames_out

    return Case(run, lambda: streamed(frames, operators, **options), facts=lambda: dict(told))


def at_work(frames, operators, **options):
    """Return the case of a run of which counts the time from the first task to the end of the last one."""
    import time

    import hyperframes as hf

    told, spans = {}, []

    class Watch:
        def observe(self, seen):
            if seen["kind"] == "done":
                spans.append((seen["begin_ns"], seen["begin_ns"] + seen["duration_ns"]))

    def run():
        spans.clear()
        began = time.perf_counter()
        result = hf.run(frames, operators, to="null:", instruments=(Watch(),), **options)
        told.update(seconds_with_start=time.perf_counter() - began, scheduler_share=result.scheduler_share)
        return result.frames_out

    def seconds():
        return (max(end for _, end in spans) - min(begin for begin, _ in spans)) / 1e9

    return Case(run, lambda: streamed(frames, operators, **options), facts=lambda: dict(told), seconds=seconds)


def python_only(inputs):
    import numpy as np
    from plain_python import threshold
    from tasks import PYTHON_FRAMES

    frames = np.load(Path(inputs.memory) / "yuv.npy")[:, :1080:6, ::6].copy()
    frames = np.concatenate([frames] * (PYTHON_FRAMES // len(frames)))
    return {
        f"{executor}, {n} worker{'s' * (n > 1)}": at_work(frames, threshold, executor=executor, workers=n, size=8)
        for executor in ("threads", "processes")
        for n in (1, 2)
    }


def sampling(inputs):
    from tasks import non_uniform

    import hyperframes as hf

    wanted = non_uniform(inputs.num_frames)

    def planar():
        with hf.open(inputs.clip) as video:
            return video.frames(wanted)

    def rgb():
        return hf.run(planar(), pixel_format="rgb24").array

    return {
        "hyperframes, RGB": Case(lambda: len(rgb()), rgb),
        "hyperframes, YUV": Case(lambda: len(planar())),
    }


def addressed(inputs, workload):
    """Return every seventh frame of an awkward clip, asked for by position."""
    import hyperframes as hf

    if workload not in inputs.odd:
        return {}

    told = {}

    def frames():
        with hf.open(inputs.odd[workload]) as video:
            told["declared"] = video.num_frames
            for position in range(0, video.count(), 7):
                yield hf.run(video.frames([position]), pixel_format="rgb24").array

    return {"hyperframes": Case(None, frames, facts=lambda: dict(told))}


def sensor(inputs, radius):
    from tasks import pieces, sensor_rows

    import hyperframes as hf

    rows, operator = sensor_rows(), f"temporal_mean:radius={radius}"

    def means():
        return hf.run(rows, operator).array

    return {"hyperframes": Case(lambda: len(means()), lambda: pieces(means()))}


def peak_memory(inputs):
    return {f"hyperframes, {word}": planned(inputs.clip, pf) for word, pf in (("YUV", "native"), ("RGB", "rgb24"))}


def planned(clip, pixel_format):
    """Return the case of a run that tells what was planned for it."""
    import hyperframes as hf
    from hyperframes.drivers import set_up

    told = {}

    def run():
        pipeline = hf.Pipeline.of(clip, MEAN, to="null:", pixel_format=pixel_format)
        setup = set_up(pipeline, open_sinks=False)
        try:
            told["planned_bytes"] = setup.memory_bytes()
        finally:
            setup.close()
        result = hf.run(pipeline)
        told.update(told_peak_bytes=result.peak_memory_bytes, size=result.size, workers=result.workers)
        return result.frames_out

    return Case(run, facts=lambda: dict(told))


def arrays_out(inputs):
    import shutil

    import numpy as np
    from tasks import STORED_FRAMES

    import hyperframes as hf

    frames = np.load(Path(inputs.memory) / "rgb.npy")[:STORED_FRAMES]
    cases = {}
    for suffix in ("npy", "zarr"):
        path = Path(inputs.scratch) / f"hyperframes.{suffix}"

        def remove(path=path):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

        def run(path=path):
            return hf.run(frames, to=str(path), size=16).frames_out

        def read(path=path, run=run):
            run()
            return streamed(str(path), ())

        cases[f"hyperframes, {suffix}"] = Case(run, read, before=remove)
    return {**cases, "limit: disk": raw_writes(frames.nbytes, len(frames), Path(inputs.scratch) / "raw")}


def raw_writes(num_bytes, num_frames, path):
    """Return the case of so many bytes given to the disk from memory that suits it, past the system's own, and nothing else."""
    import mmap
    import os

    memory = mmap.mmap(-1, 16 << 20)
    memory[:] = os.urandom(len(memory))

    def run():
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            file = os.open(path, flags | getattr(os, "O_DIRECT", 0))
        except OSError:  # a file system that always keeps a copy in memory
            file = os.open(path, flags)
        done = 0
        while done < num_bytes:
            done += os.write(file, memory)
        os.fsync(file)
        os.close(file)
        return num_frames

    return Case(run, before=lambda: path.unlink(missing_ok=True))
