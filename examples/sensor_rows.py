"""Sensor rows go through the same flow as pictures: a frame is a row of values.

Three sensors at 100 Hz with noise and one spike. A median over time takes the spike out, a mean smooths what is left;
both run on one hyperframe while it is in cache, and their halos add up.
"""

import numpy as np

import hyperframes as hf

rng = np.random.default_rng(7)
seconds = np.arange(1000) / 100
rows = np.stack([np.sin(seconds), np.cos(seconds), seconds / 10], axis=1).astype(np.float32)  # (1000, 3)
noisy = rows + rng.normal(0, 0.05, rows.shape).astype(np.float32)
noisy[500, 0] = 40.0

result = hf.run(noisy, ["temporal_median:radius=2", "temporal_mean:radius=4"], size=128)
clean = result.array

print(f"{result.frames} rows in, {len(clean)} out")
print(f"largest error before: {np.abs(noisy - rows).max():.1f}, after: {np.abs(clean - rows).max():.1f}")
