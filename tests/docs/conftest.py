"""The repository as the documentation's tests see it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root():
    """The folder of the repository."""
    return ROOT


@pytest.fixture
def tool():
    """Load a script of tools/ as a module."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"hyperframes_tool_{name}", ROOT / "tools" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load
