"""The ffmpeg program with its own filters; it finds its number of threads itself."""

import subprocess
from pathlib import Path

from measure import Case

MEAN = "tpad=stop=2:stop_mode=clone,tmix=frames=5,trim=start_frame=2,setpts=PTS-STARTPTS"
"""tmix looks back only: the tail is repeated and the first two results are dropped, so that windows are centred."""
MEDIAN = "tpad=start=2:start_mode=clone:stop=2:stop_mode=clone,tmedian=radius=2"
"""tmedian gives nothing for the first and last frames of its radius."""


def contest(workload, inputs):
    """Return the cases of a workload."""
    clip = ["-i", inputs.clip]
    if workload == "memory_rgb":
        raw = raw_of(inputs, "gbrp")
        return {
            "ffmpeg tmix": null(raw, MEAN, inputs.num_memory, "gbrp"),
            "ffmpeg, reading only": null(raw, "null", inputs.num_memory),
        }
    if workload == "median_yuv":
        raw = raw_of(inputs, "yuv420p")
        return {
            "ffmpeg tmedian": null(raw, MEDIAN, inputs.num_memory, "yuv420p"),
            "ffmpeg, reading only": null(raw, "null", inputs.num_memory),
        }
    if workload == "file_yuv":
        return {
            "ffmpeg tmix": null(clip, MEAN, inputs.num_frames, "yuv420p"),
            "ffmpeg, decoding only": null(clip, "null", inputs.num_frames),
        }
    if workload == "file_rgb":
        return {"ffmpeg tmix": null(clip, "format=gbrp," + MEAN, inputs.num_frames, "gbrp")}
    if workload.startswith("h264_"):
        return h264(inputs, workload.removeprefix("h264_"))
    if workload == "peak_memory":
        return {
            "ffmpeg tmix, YUV": null(clip, MEAN, inputs.num_frames),
            "ffmpeg tmix, RGB": null(clip, "format=gbrp," + MEAN, inputs.num_frames),
        }
    return {}


def raw_of(inputs, pixel_format):
    """Return the options that read frames from memory."""
    path = str(Path(inputs.memory) / f"{pixel_format}.raw")
    return ["-f", "rawvideo", "-pix_fmt", pixel_format, "-s", "1920x1080", "-r", "30", "-i", path]


def ffmpeg(*arguments):
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *arguments], check=True)


def null(source, filters, num_frames, pixel_format=None):
    """Return the case of filters whose results are dropped, compared in `pixel_format`."""

    def run():
        ffmpeg(*source, "-an", "-vf", filters, "-f", "null", "-")
        return num_frames

    def frames():
        packed = "rgb24" if pixel_format == "gbrp" else pixel_format
        nbytes = 1920 * 1080 * 3 // (2 if packed == "yuv420p" else 1)
        command = ["ffmpeg", "-v", "error", "-nostdin", *source, "-an", "-vf", filters]
        command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", packed, "-"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            while frame := program.stdout.read(nbytes):
                yield frame

    return Case(run, None if pixel_format is None else frames)


def h264(inputs, preset):
    """Return the timed encoding, and two neighbours that tell the rate of quality against size."""
    import av

    cases = {}
    for crf in (20, 19, 21):
        path = Path(inputs.scratch) / f"ffmpeg_{preset}_{crf}.mp4"

        def run(path=path, crf=crf):
            options = ["-c:v", "libx264", "-preset", preset, "-crf", str(crf), "-pix_fmt", "yuv420p", str(path)]
            ffmpeg("-i", inputs.clip, "-an", "-vf", MEAN, *options)
            return inputs.num_frames

        def frames(path=path, run=run):
            run()
            with av.open(str(path)) as container:
                container.streams.video[0].thread_type = "AUTO"
                for frame in container.decode(video=0):
                    yield frame.to_ndarray()

        label = f"ffmpeg {preset}" if crf == 20 else f"ffmpeg {preset}, crf {crf}"
        cases[label] = Case(run if crf == 20 else None, frames, facts=lambda path=path: {"bytes": path.stat().st_size})
    return cases
