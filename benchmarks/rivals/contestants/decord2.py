"""decord2: frames by position, all at once and one by one."""

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    import decord
    from tasks import non_uniform

    if workload == "sampling":
        wanted = non_uniform(inputs.num_frames)

        def together():
            return list(decord.VideoReader(inputs.clip).get_batch(wanted).asnumpy())

        def one_by_one():
            video = decord.VideoReader(inputs.clip)
            return [video[position].asnumpy() for position in wanted]

        return {
            "decord2, all at once": Case(lambda: len(together()), together),
            "decord2, one by one": Case(lambda: len(one_by_one()), one_by_one),
        }
    if workload in inputs.odd:

        def frames():
            video = decord.VideoReader(inputs.odd[workload])
            told["declared"] = len(video)
            for position in range(0, len(video), 7):
                yield video[position].asnumpy()

        told = {}
        return {"decord2": Case(None, frames, facts=lambda: dict(told))}
    return {}
