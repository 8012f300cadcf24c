"""VapourSynth R81: its own AverageFrames and the zsmooth plugin, on frames in its cache or from the faster reader."""

from pathlib import Path

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    import vapoursynth as vs

    vs.core.num_threads = 2
    vs.core.max_cache_size = 6000
    if workload == "memory_rgb":
        source = cached(inputs, "rgb", vs.RGB24)
        return {
            "VapourSynth AverageFrames": Case(*drained(average(source), packed=True)),
            "VapourSynth zsmooth": Case(*drained(soften(source), packed=True)),
        }
    if workload == "median_yuv":
        source = cached(inputs, "yuv", vs.YUV420P8)
        median = vs.core.zsmooth.TemporalMedian(source, radius=2)
        median.std.SetVideoCache(mode=0)
        return {"VapourSynth zsmooth": Case(*drained(median))}
    if workload == "file_yuv":
        return {
            "VapourSynth AverageFrames": Case(*opened(lambda: average(reader(inputs)))),
            "VapourSynth zsmooth": Case(*opened(lambda: soften(reader(inputs)))),
        }
    if workload == "file_rgb":
        return {
            "VapourSynth AverageFrames": Case(*opened(lambda: average(rgb(reader(inputs))), packed=True)),
            "VapourSynth zsmooth": Case(*opened(lambda: soften(rgb(reader(inputs))), packed=True)),
        }
    if workload == "peak_memory":
        return {
            "VapourSynth AverageFrames, YUV": Case(opened(lambda: average(reader(inputs)))[0]),
            "VapourSynth AverageFrames, RGB": Case(opened(lambda: average(rgb(reader(inputs))))[0]),
        }
    return {}


def reader(inputs):
    """Open the clip anew, so that nothing of an earlier round is in a cache; its index is kept, as is usual."""
    import vapoursynth as vs

    index = str(Path(inputs.scratch) / f"{Path(inputs.clip).stem}.lwi")
    return vs.core.lsmas.LWLibavSource(inputs.clip, cache=1, cachefile=index)


def rgb(clip):
    """Return the clip as RGB by the matrix that FFmpeg takes where a file names none."""
    import vapoursynth as vs

    return vs.core.resize.Bicubic(clip, format=vs.RGB24, matrix_in_s="170m")


def average(clip):
    mean = clip.std.AverageFrames(weights=[1] * 5)
    mean.std.SetVideoCache(mode=0)
    return mean


def soften(clip):
    """Return the mean of five frames by zsmooth: thresholds of 255 let every sample in."""
    mean = clip.zsmooth.TemporalSoften(radius=2, threshold=[255, 255, 255])
    mean.std.SetVideoCache(mode=0)
    return mean


def cached(inputs, name, form):
    """Return a clip whose frames lie in VapourSynth's cache."""
    import numpy as np
    import vapoursynth as vs

    frames = np.load(Path(inputs.memory) / f"{name}.npy")
    blank = vs.core.std.BlankClip(width=1920, height=1080, format=form, length=len(frames), keep=True)

    def fill(n, f):
        out = f.copy()
        for target, plane in zip(range(3), planes(frames[n], name), strict=True):
            np.asarray(out[target])[...] = plane
        return out

    clip = vs.core.std.ModifyFrame(blank, blank, fill)
    clip = clip.std.SetFrameProps(held=1)
    clip.std.SetVideoCache(mode=1, fixedsize=1, maxsize=len(frames) + 8, maxhistory=0)
    for frame in clip.frames():
        frame.close()
    return clip


def planes(frame, name):
    """Return the three planes of a frame of `rgb.npy` or `yuv.npy`."""
    if name == "rgb":
        return [frame[..., c] for c in range(3)]
    half = frame[1080:].reshape(2, 540, 960)
    return [frame[:1080], half[0], half[1]]


def drained(clip, packed=False):
    """Return functions that run through `clip`: one that drops the frames, one that yields them."""

    def run():
        return sum(1 for _ in clip.frames(close=True))

    return run, lambda: buffers(clip, packed)


def opened(make, packed=False):
    """Return the same for a clip that is made anew each time."""

    def run():
        return sum(1 for _ in make().frames(close=True))

    return run, lambda: buffers(make(), packed)


def buffers(clip, packed):
    import numpy as np

    for frame in clip.frames(close=True):
        arrays = [np.asarray(frame[p]) for p in range(3)]
        yield np.stack(arrays, -1) if packed else np.concatenate([a.reshape(-1) for a in arrays])
