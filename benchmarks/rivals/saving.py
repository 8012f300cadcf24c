"""Results of benchmarks as files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["save"]


def save(path: Path, told: dict[str, Any]) -> None:
    """Write what a benchmark tells; under its name the file is always a whole one, however the benchmark ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(told, indent=1) + "\n")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
