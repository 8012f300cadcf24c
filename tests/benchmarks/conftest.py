"""The benchmarks' own modules, which are no package."""

import importlib
import sys
from pathlib import Path

import pytest

RIVALS = Path(__file__).resolve().parents[2] / "benchmarks" / "rivals"


@pytest.fixture
def rivals(monkeypatch):
    """Import a module of benchmarks/rivals by name."""
    monkeypatch.syspath_prepend(str(RIVALS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(RIVALS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
