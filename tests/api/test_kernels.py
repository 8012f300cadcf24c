"""The two switches of compiled kernels: without a cache, and with every index checked."""

import os
import subprocess
import sys

import pytest

LOOK = """
import numpy as np
from hyperframes.kernels import kernel

@kernel
def third(values):
    return values[3]

print(third(np.arange(3)))
"""

MEAN = """
import numpy as np
import hyperframes as hf

frames = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
print(hf.run(frames, "temporal_median:radius=1", size=2).array.sum())
"""


def python(folder, text, **settings):
    path = folder / "program.py"
    path.write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HYPERFRAMES_", "NUMBA_"))}
    return subprocess.run(
        [sys.executable, str(path)],
        env={**kept, "NUMBA_CACHE_DIR": str(folder / "cache"), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.requirement("A77")
def test_with_checks_an_index_beyond_the_end_is_an_error_where_it_was_garbage(tmp_path):
    kept = python(tmp_path, LOOK)
    assert kept.returncode == 0, kept.stderr
    assert list((tmp_path / "cache").rglob("*.nbi"))  # the unchecked version lies ready: it must not be taken
    checked = python(tmp_path, LOOK, HYPERFRAMES_KERNEL_CHECKS="1")
    assert checked.returncode == 1
    assert "IndexError: index is out of bounds" in checked.stderr


@pytest.mark.slow
@pytest.mark.requirement("A76")
def test_without_the_cache_nothing_is_kept_and_results_are_the_same(tmp_path):
    fresh = python(tmp_path, MEAN, HYPERFRAMES_KERNEL_CACHE="0")
    assert fresh.returncode == 0, fresh.stderr
    assert not list(tmp_path.rglob("*.nbi"))
    checked = python(tmp_path, MEAN, HYPERFRAMES_KERNEL_CHECKS="1")
    assert (checked.stdout, checked.stderr) == (fresh.stdout, fresh.stderr)
