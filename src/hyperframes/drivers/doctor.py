"""What this machine offers a run, and what might get in its way; nothing is changed but a probe file or two."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hyperframes.drivers.machine import (
    allowed_cpus,
    available_memory,
    check_process_limit,
    cpu_list,
    machine_facts,
    memory_limit,
    numa_nodes,
    process_room,
    processor_name,
)
from hyperframes.drivers.profile import cache_folder
from hyperframes.drivers.quantity import bytes_text, count_text

__all__ = ["Diagnosis", "examine"]

ENCODERS = ("libx264", "libx265", "libvpx-vp9", "libsvtav1", "prores_ks", "ffv1", "mpeg4", "mjpeg")
"""Encoders that sinks may use."""
DECODERS = ("h264", "hevc", "vp9", "libdav1d", "mpeg4", "mjpeg", "prores", "ffv1")
FEW_FILES = 256
"""Open files below which a run over many images may not get what it needs."""
SPARE_THREADS = 16
"""Threads of a run besides its workers: sources, sinks, the decoder's and the encoder's own."""


@dataclass(slots=True)
class Diagnosis:
    """What was found; `problems` says what needs attention, each with what to do."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By section: values that are numbers, text, lists or dicts."""
    problems: list[dict[str, str]] = field(default_factory=list)
    """``problem`` and ``hint`` of each."""

    def complain(self, problem: str, hint: str) -> None:
        """Note a problem and what to do about it."""
        self.problems.append({"problem": problem, "hint": hint})

    def to_json(self) -> dict[str, Any]:
        """Return everything as one dict."""
        return {"healthy": not self.problems, **self.facts, "problems": self.problems}


def examine() -> Diagnosis:
    """Look at Python, packages, libraries, processors, memory, limits, encoders and caches."""
    diagnosis = Diagnosis()
    for section, look in (
        ("versions", _versions),
        ("processors", _processors),
        ("memory", _memory),
        ("limits", _limits),
        ("extras", _extras),
        ("codecs", _codecs),
        ("caches", _caches),
    ):
        diagnosis.facts[section] = look(diagnosis)
    return diagnosis


def _versions(diagnosis: Diagnosis) -> dict[str, Any]:
    import hyperframes

    others = other_distributions()
    if others:
        diagnosis.complain(
            f"the import name 'hyperframes' is also provided by {', '.join(others)}",
            f"Keep one of them: python -m pip uninstall {' '.join(others)}, then install hyperframes-engine again.",
        )
    return {
        "hyperframes": hyperframes.__version__,
        "location": str(Path(hyperframes.__file__).parent),
        "other_distributions": others,
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "system": platform.platform(),
        **{name: _loaded_version(diagnosis, module) for name, module in _LIBRARIES.items()},
        **{name: _installed_version(name) for name in _PACKAGES},
        "ffmpeg": _ffmpeg_versions(),
    }


_LIBRARIES = {"numpy": "numpy", "numba": "numba", "av": "av", "opencv": "cv2"}
"""Loaded to see that they can be: a package that is there may still miss a library of the system."""
_PACKAGES = ("typer", "rich", "pydantic", "psutil", "prometheus-client")


def other_distributions(import_name: str = "hyperframes", ours: str = "hyperframes-engine") -> list[str]:
    """Return the distributions besides ours that install something under our import name."""
    providers = importlib.metadata.packages_distributions().get(import_name, [])
    found = {name for name in providers if _normal(name) != ours}
    # An editable install of ours may not list its files; a distribution called like the import name always clashes.
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name and _normal(name) == import_name:
            found.add(name)
    return sorted(found)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _loaded_version(diagnosis: Diagnosis, module: str) -> str | None:
    try:
        return str(importlib.import_module(module).__version__)
    except ImportError as error:
        diagnosis.complain(f"{module} cannot be loaded: {error}", "Install hyperframes-engine again.")
        return None


def _installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _ffmpeg_versions() -> dict[str, str]:
    import av

    return {name: ".".join(map(str, numbers)) for name, numbers in sorted(av.library_versions.items())}


def _processors(diagnosis: Diagnosis) -> dict[str, Any]:
    facts = machine_facts()
    if facts.quota is not None and facts.quota < min(facts.physical, facts.affinity):
        diagnosis.complain(
            f"this container may use {facts.quota:g} of {count_text(facts.affinity, 'core')}",
            "Workers are chosen for that; raise the container's CPU limit for more.",
        )
    return {
        "name": processor_name(),
        "physical": facts.physical,
        "logical": facts.logical,
        "allowed": facts.affinity,
        "affinity": cpu_list(allowed_cpus()),
        "quota": facts.quota,
        "workers": facts.cores,
        "nodes": _nodes(),
    }


def _nodes() -> dict[str, Any]:
    """Say which memory nodes there are, and how to keep a run to one of them (A49, A87).

    A worker's memory comes from the node on which it first writes to it, so nothing needs doing on one node; on several,
    a whole process bound to one node neither reads nor writes across the link between them.
    """
    nodes, allowed = numa_nodes(), set(allowed_cpus())
    used = {node: cpus for node, cpus in nodes.items() if allowed & set(cpus)}
    commands = []
    if len(used) > 1:
        for node, cpus in used.items():
            commands.append(f"numactl --cpunodebind={node} --membind={node} hyperframes run ...")
            commands.append(f"taskset -c {cpu_list(sorted(allowed & set(cpus)))} hyperframes run ...")
    return {"count": len(nodes), "cpus": {str(node): cpu_list(cpus) for node, cpus in nodes.items()}, "bind": commands}


def _memory(diagnosis: Diagnosis) -> dict[str, Any]:
    found = psutil.virtual_memory()
    usable = available_memory()
    if usable < 1 << 30:
        diagnosis.complain(
            f"only {bytes_text(usable)} of memory are available",
            "Use --max-memory and a small --size, or free some memory.",
        )
    return {"total_bytes": found.total, "usable_bytes": usable, "limit_bytes": memory_limit()}


def _limits(diagnosis: Diagnosis) -> dict[str, Any]:
    """Say how many files and threads a run may open (A78)."""
    room = process_room()
    warning = check_process_limit(SPARE_THREADS + machine_facts().cores)
    if warning is not None:
        diagnosis.complain(warning, "Raise it with 'ulimit -u', or end other programs.")
    files = _open_files()
    if files is not None and files < FEW_FILES:
        diagnosis.complain(
            f"at most {files} files may be open: expected at least {FEW_FILES}", f"Raise it: ulimit -n {FEW_FILES}"
        )
    return {"open_files": files, "threads": {"used": room.used, "limit": room.limit}}


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None  # not a POSIX system
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def optional_parts(requirements: list[str] | None) -> dict[str, list[str]]:
    """Return by extra the distributions that it needs, from a distribution's metadata; without ``all``, which is their sum.

    >>> optional_parts(["numpy>=2", 'pyarrow>=17; extra == "tables"', 'jinja2>=3; extra == "plot"'])
    {'tables': ['pyarrow'], 'plot': ['jinja2']}
    """
    parts: dict[str, list[str]] = {}
    for requirement in requirements or []:
        found = re.match(r"""([\w.-]+)[^;]*;.*extra == ["']([\w-]+)["']""", requirement)
        if found is not None and found[2] != "all":
            parts.setdefault(found[2], []).append(found[1])
    return parts


def _extras(diagnosis: Diagnosis) -> dict[str, Any]:
    found = {}
    for extra, needed in optional_parts(importlib.metadata.requires("hyperframes-engine")).items():
        missing = [distribution for distribution in needed if _installed_version(distribution) is None]
        install = f"python -m pip install 'hyperframes-engine[{extra}]'"
        found[extra] = {"present": not missing, "missing": missing, "install": install if missing else None}
    return found


def _codecs(diagnosis: Diagnosis) -> dict[str, Any]:
    import av

    encoders = {name: _offers(name, "w") for name in ENCODERS}
    decoders = {name: _offers(name, "r") for name in DECODERS}
    if not encoders["libx264"]:
        diagnosis.complain(
            f"PyAV {av.__version__} was built without libx264, which .mp4 files need by default",
            "Install PyAV's own wheel: python -m pip install --force-reinstall --only-binary av av",
        )
    return {"encoders": encoders, "decoders": decoders}


def _offers(name: str, mode: Any) -> bool:
    import av
    import av.codec.codec

    try:
        av.Codec(name, mode)
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def _caches(diagnosis: Diagnosis) -> dict[str, Any]:
    """Say where numba keeps compiled kernels: without a place to write, every process compiles them again."""
    import hyperframes.operators

    wanted = os.environ.get("NUMBA_CACHE_DIR", "")
    beside = Path(hyperframes.operators.__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    places = [Path(wanted)] if wanted else [beside, home]
    writable = [str(place) for place in places if can_write(place)]
    if not writable:
        diagnosis.complain(
            f"compiled kernels cannot be kept: no permission to write in {' or '.join(map(str, places))}",
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
        )
    temporary = tempfile.gettempdir()
    if not can_write(Path(temporary)):
        diagnosis.complain(f"nothing can be written in {temporary}", "Set TMPDIR to a folder that can be written.")
    profiles = cache_folder() / "profiles"
    return {
        "numba": writable[0] if writable else None,
        "tuning": {"folder": str(profiles), "profiles": len(list(profiles.glob("[!.]*.json")))},
        "numba_cache_dir": wanted or None,
        "temporary": temporary,
        "temporary_free_bytes": _free_bytes(temporary),
    }


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, or in the nearest folder above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _free_bytes(folder: str) -> int | None:
    import shutil

    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def summary(diagnosis: Diagnosis) -> str:
    """Return the outcome in one sentence."""
    found = len(diagnosis.problems)
    return count_text(found, "problem") + " found" if found else "no problem found"
