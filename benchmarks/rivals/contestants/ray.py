"""Ray Data: a video as a dataset of frames, for its memory."""

import logging

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload != "peak_memory":
        return {}
    import ray

    def run():
        ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, object_store_memory=4 * 10**9)
        ray.data.DataContext.get_current().enable_progress_bars = False
        batches = ray.data.read_videos(inputs.clip).iter_batches(batch_size=16, batch_format="numpy")
        done = sum(len(batch["frame"]) for batch in batches)
        ray.shutdown()
        return done

    return {"Ray Data, decoding to RGB only": Case(run)}
