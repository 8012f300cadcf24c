"""torchcodec: frames by position, exact and approximate, all at once and one by one."""

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    from tasks import non_uniform

    if workload == "sampling":
        wanted = non_uniform(inputs.num_frames)

        def together():
            return list(decoder(inputs.clip).get_frames_at(wanted).data.numpy())

        def one_by_one():
            opened = decoder(inputs.clip)
            return [opened[position].numpy() for position in wanted]

        return {
            "torchcodec, all at once": Case(lambda: len(together()), together),
            "torchcodec, one by one": Case(lambda: len(one_by_one()), one_by_one),
        }
    if workload in inputs.odd:
        cases = {}
        for mode in ("exact", "approximate"):
            told = {}

            def frames(mode=mode, told=told):
                opened = decoder(inputs.odd[workload], mode)
                told["declared"] = len(opened)
                for position in range(0, len(opened), 7):
                    yield opened[position].numpy()

            cases[f"torchcodec, {mode}"] = Case(None, frames, facts=lambda told=told: dict(told))
        return cases
    return {}


def decoder(path, mode="exact"):
    from torchcodec.decoders import VideoDecoder

    return VideoDecoder(path, seek_mode=mode, num_ffmpeg_threads=0, dimension_order="NHWC")
