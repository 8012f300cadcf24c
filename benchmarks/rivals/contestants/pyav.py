"""PyAV in a plain loop with the codec's own threads: decoding only, running sums in NumPy, a seek for each frame."""

from collections import deque

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload == "file_yuv":
        return {
            "limit: decoding only": Case(lambda: count(decoded(inputs.clip))),
            "PyAV + NumPy running sum": Case(
                lambda: count(means(inputs.clip, planar)), lambda: means(inputs.clip, planar)
            ),
        }
    if workload == "file_rgb":
        return {
            "limit: decoding to RGB only": Case(lambda: count(map(rgb, decoded(inputs.clip)))),
            "PyAV + NumPy running sum": Case(lambda: count(means(inputs.clip, rgb)), lambda: means(inputs.clip, rgb)),
        }
    if workload == "sampling":
        from tasks import non_uniform

        wanted = non_uniform(inputs.num_frames)
        return {
            "PyAV, a seek for each": Case(
                lambda: count(sought(inputs.clip, wanted[::4])), lambda: sought(inputs.clip, wanted)
            )
        }
    if workload == "peak_memory":
        return {"PyAV + NumPy running sum, RGB": Case(lambda: count(means(inputs.clip, rgb)))}
    if workload in inputs.odd:
        return {"PyAV from the start": Case(None, lambda: every_seventh(inputs.odd[workload]))}
    return {}


def count(frames):
    return sum(1 for _ in frames)


def decoded(path):
    import av

    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        yield from container.decode(stream)


def planar(frame):
    return frame.to_ndarray()


def rgb(frame):
    return frame.to_ndarray(format="rgb24", threads=1)  # more threads are slower beside those of the decoder


def means(path, convert):
    """Yield the means of five frames from a running sum, rounded half up, the ends repeated."""
    import numpy as np

    held, total, scratch = deque(), None, None

    def enter(frame):
        nonlocal total, scratch
        if total is None:
            total = np.zeros(frame.shape, np.uint16)
            scratch = np.empty_like(total)
        held.append(frame)
        np.add(total, frame, out=total)

    def leave():
        np.add(total, 2, out=scratch)
        np.floor_divide(scratch, 5, out=scratch)
        np.subtract(total, held.popleft(), out=total)
        return scratch.astype(np.uint8)

    for frame in map(convert, decoded(path)):
        for _ in range(1 if held else 3):
            enter(frame)
        if len(held) == 5:
            yield leave()
    for _ in range(2):
        enter(held[-1])
        yield leave()


def sought(path, wanted):
    """Yield the frames at the positions `wanted`, with a seek for each."""
    import av

    with av.open(path) as container:
        times = sorted(packet.pts for packet in container.demux(video=0) if packet.pts is not None)
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for position in wanted:
            container.seek(times[position], stream=stream)
            yield rgb(next(frame for frame in container.decode(stream) if frame.pts >= times[position]))


def every_seventh(path):
    for position, frame in enumerate(decoded(path)):
        if position % 7 == 0:
            yield rgb(frame)
