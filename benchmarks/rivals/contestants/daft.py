"""Daft: a video as a table of frames, for its memory."""

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload != "peak_memory":
        return {}
    import daft

    def run():
        frames = daft.read_video_frames(inputs.clip, image_height=1080, image_width=1920)
        return sum(len(part) for part in frames.iter_partitions())

    return {"Daft, decoding to RGB only": Case(run)}
