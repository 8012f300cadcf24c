"""dask: map_overlap over chunks of frames, with an ordinary NumPy function and with the kernel of Hyperframes."""

from pathlib import Path

from measure import Case

CHUNK = 16


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload == "memory_rgb":
        import numpy as np

        frames = np.load(Path(inputs.memory) / "rgb.npy")
        return {
            "dask, NumPy": in_memory(frames[:48], numpy_mean),
            "dask, our kernel": in_memory(frames, kernel_mean()),
        }
    if workload == "file_rgb":
        return {"dask, our kernel": from_file(inputs, kernel_mean())}
    if workload == "peak_memory":
        return {"dask, RGB": from_file(inputs, kernel_mean())}
    return {}


def numpy_mean(chunk):
    """Return the means of five frames, rounded half up; two frames at each end are cut off by dask."""
    import numpy as np

    out = chunk.copy()
    for t in range(2, len(chunk) - 2):
        out[t] = (chunk[t - 2 : t + 3].sum(axis=0, dtype=np.uint16) + 2) // 5
    return out


def kernel_mean():
    """Return the same on the kernel that Hyperframes runs."""
    import numpy as np

    from hyperframes.operators.temporal_mean import mean_kernel

    def mean(chunk):
        out = np.empty_like(chunk)
        source, means = (a.reshape(len(a), -1) for a in (np.ascontiguousarray(chunk), out))
        mean_kernel(source, means[2:-2], 5)(0, source.shape[1], 0)
        return out

    return mean


def overlapped(frames, function):
    import numpy as np

    return frames.map_overlap(
        function, depth={0: 2}, boundary={0: "nearest"}, dtype=np.uint8, meta=np.empty((0,) * 4, np.uint8)
    )


def in_memory(frames, function):
    import dask.array
    import numpy as np

    out = np.zeros_like(frames)
    source = dask.array.from_array(frames, chunks=(CHUNK, *frames.shape[1:]), name=False)

    def run():
        dask.array.store(overlapped(source, function), out, lock=False, scheduler="threads", num_workers=2)
        return len(out)

    def results():
        run()
        return out

    return Case(run, results)


def from_file(inputs, function, chunk=32):
    """Return the case of chunks that are decoded when dask wants them, each from the key frame before it."""
    import av
    import dask
    import dask.array
    import numpy as np

    with av.open(inputs.clip) as container:
        times = sorted(packet.pts for packet in container.demux(video=0) if packet.pts is not None)
    shape = (1080, 1920, 3)

    def decode(start, stop):
        out = np.empty((stop - start, *shape), np.uint8)
        with av.open(inputs.clip) as container:
            stream = container.streams.video[0]
            stream.thread_type, stream.codec_context.thread_count = "NONE", 1
            if start:
                container.seek(times[start], stream=stream)
            filled = 0
            for frame in container.decode(stream):
                if frame.pts >= times[start]:
                    out[filled] = frame.to_ndarray(format="rgb24", threads=1)
                    filled += 1
                    if filled == len(out):
                        break
        return out

    class Sink:
        """Takes chunks as they come."""

        def __init__(self):
            self.frames = {}
            self.count = 0
            self.keeps = False

        def __setitem__(self, where, value):
            self.count += len(value)
            if self.keeps:
                self.frames.update(zip(range(where[0].start, where[0].stop), value, strict=True))

    def run(keeps=False):
        sink = Sink()
        sink.keeps = keeps
        ranges = [(start, min(start + chunk, len(times))) for start in range(0, len(times), chunk)]
        parts = [
            dask.array.from_delayed(dask.delayed(decode, pure=True)(a, b), (b - a, *shape), np.uint8) for a, b in ranges
        ]
        result = overlapped(dask.array.concatenate(parts), function)
        dask.array.store(result, sink, lock=True, scheduler="threads", num_workers=2)
        return sink

    def results():
        frames = run(keeps=True).frames
        return [frames[position] for position in sorted(frames)]

    return Case(lambda: run().count, results)
