"""zarr and NumPy: writing frames as arrays, by default and with the setting that is fastest."""

import shutil
from pathlib import Path

from measure import Case

CHUNK = 16


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload != "arrays_out":
        return {}
    import numpy as np
    from tasks import STORED_FRAMES

    frames = np.load(Path(inputs.memory) / "rgb.npy")[:STORED_FRAMES]
    scratch = Path(inputs.scratch)
    return {
        "zarr, default": zarr_case(frames, scratch / "default.zarr"),
        "zarr, no look for empty chunks": zarr_case(
            frames, scratch / "fast.zarr", compressors=None, config={"write_empty_chunks": True}
        ),
        "zarr, no look, safe on disk": zarr_case(
            frames, scratch / "safe.zarr", safe=True, compressors=None, config={"write_empty_chunks": True}
        ),
        "zarr, no compression": zarr_case(frames, scratch / "plain.zarr", compressors=None),
        "NumPy save": npy_case(scratch / "save.npy", lambda path: np.save(path, frames), len(frames)),
        "NumPy save, safe on disk": npy_case(scratch / "safe.npy", lambda path: saved(frames, path), len(frames)),
        "NumPy open_memmap": npy_case(scratch / "map.npy", lambda path: mapped(frames, path), len(frames)),
    }


def zarr_case(frames, path, *, safe=False, **settings):
    import zarr

    def run():
        array = zarr.create_array(
            store=str(path), shape=frames.shape, chunks=(CHUNK, *frames.shape[1:]), dtype=frames.dtype, **settings
        )
        for t in range(0, len(frames), CHUNK):
            array[t : t + CHUNK] = frames[t : t + CHUNK]
        if safe:
            all_on_disk(path)
        return len(frames)

    def results():
        run()
        return zarr.open_array(str(path), mode="r")[:]

    return Case(run, results, before=lambda: shutil.rmtree(path, ignore_errors=True))


def all_on_disk(path):
    """Do as one does who must find the folder whole after a power cut."""
    import os

    for place in (*path.rglob("*"), path):
        descriptor = os.open(place, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def npy_case(path, write, num_frames):
    import numpy as np

    def run():
        write(path)
        return num_frames

    def results():
        run()
        return np.load(path)

    return Case(run, results, before=lambda: path.unlink(missing_ok=True))


def saved(frames, path):
    """Save as one does who must find the file whole after a power cut."""
    import os

    import numpy as np

    with path.open("wb") as file:
        np.save(file, frames)
        file.flush()
        os.fsync(file.fileno())


def mapped(frames, path):
    import numpy as np

    target = np.lib.format.open_memmap(path, "w+", frames.dtype, frames.shape)
    for t in range(0, len(frames), CHUNK):
        target[t : t + CHUNK] = frames[t : t + CHUNK]
    target.flush()
