"""`import hyperframes` is quick and loads no heavy library."""

import json
import subprocess
import sys

import pytest

HEAVY = [
    "numba",
    "torch",
    "ray",
    "lancedb",
    "fastapi",
    "av",
    "cv2",
    "pyarrow",
    "zarr",
    "matplotlib",
    "jinja2",
    "typer",
    "rich",
]


def test_a_bare_import_loads_no_heavy_library():
    code = f"import hyperframes, json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.slow
@pytest.mark.alone
def test_a_bare_import_takes_under_300_milliseconds():
    """Best of several runs, so that a busy machine does not count; the interpreter's own start is not in it."""
    code = "import time; t = time.perf_counter(); import hyperframes; print(time.perf_counter() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    ]
    assert min(seconds) < 0.3
