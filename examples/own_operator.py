"""An operator of your own, and why the halo matters.

A plain function over arrays becomes an operator once it says how many frames it reads on each side. The engine cuts the
stream into hyperframes, hands each its core with the halo around it, and puts the results together. Whatever the size,
the result is that of one pass over the whole stream.
"""

import numpy as np

import hyperframes as hf


@hf.operator(halo=1)
def brightest_of_three(frames):  # (T + 2, H, W) -> (T, H, W)
    """Return for every pixel the largest value in the frame before, this one and the next."""
    return np.maximum(np.maximum(frames[:-2], frames[1:-1]), frames[2:])


# A dot of light that jumps: frame t lights the pixel (0, t).
video = np.zeros((6, 1, 6), np.uint8)
video[np.arange(6), 0, np.arange(6)] = 255

whole = hf.run(video, brightest_of_three, size=6).array
for size in (1, 2, 4):
    packed = hf.run(video, brightest_of_three, size=size).array
    print(f"size {size}: equal to one pass over the whole: {np.array_equal(packed, whole)}")

for frame in whole[:, 0] // 255:
    print("".join(".#"[lit] for lit in frame))
