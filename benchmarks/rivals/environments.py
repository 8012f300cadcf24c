"""A locked environment for each rival: `envs/NAME.txt` pins every package, pip makes it, once."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ENVS = Path(__file__).resolve().parent / "envs"


class UnavailableError(Exception):
    """A rival cannot be installed here; the message says why."""


def needs_own(name: str) -> bool:
    """Return whether a contestant has an environment of its own; else it runs in this one."""
    return (ENVS / f"{name}.txt").exists()


def wanted_python(pins: str) -> str:
    """Return the Python that the first line of a pin file asks for, as ``3.12``.

    Raises
    ------
    ValueError
        If it names none.
    """
    found = re.match(r"# Python (\d+\.\d+)\.", pins)
    if found is None:
        raise ValueError(f"the first line names no Python: expected '# Python 3.11. ...', got {pins[:40]!r}")
    return found[1]


def python_of(name: str, folder: Path, interpreters: dict[str, str]) -> str:
    """Return the interpreter of a contestant, its environment made under `folder` if it is not there yet.

    Parameters
    ----------
    name : str
        The contestant.
    folder : Path
        Where environments lie.
    interpreters : dict
        Paths of interpreters by version, for those that are not on the path as ``python3.12``.

    Raises
    ------
    UnavailableError
        If there is no such Python, or pip fails.
    """
    if not needs_own(name):
        return sys.executable
    return made(ENVS / f"{name}.txt", folder / name, interpreters)


def made(locked: Path, home: Path, interpreters: dict[str, str]) -> str:
    """Return the interpreter of the environment `home`, made of the packages that the file `locked` pins.

    Raises
    ------
    UnavailableError
        If there is no such Python, or pip fails.
    """
    pins = locked.read_text()
    python, stamp = str(home / "bin" / "python"), home / "pins.sha256"
    digest = hashlib.sha256(pins.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    _run([_interpreter(wanted_python(pins), interpreters), "-m", "venv", str(home)])
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(locked)])
    stamp.write_text(digest)
    return python


def _interpreter(wanted: str, interpreters: dict[str, str]) -> str:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [interpreters.get(wanted), sys.executable if wanted == own else None, shutil.which(f"python{wanted}")]
    for candidate in filter(None, candidates):
        asked = [candidate, "-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.stdout.strip() == wanted:
            return candidate
    raise UnavailableError(f"no Python {wanted} found: name one with --interpreter {wanted}=PATH")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{' '.join(command[:4])} failed: {done.stderr.strip().splitlines()[-1:]}")
