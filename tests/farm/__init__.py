"""Real cameras for tests: RTSP servers and senders of other protocols, run as programs of the system.

`Cameras` is the RTSP server with its commands; `sender` runs ffmpeg or gst-launch. All of them end with the test.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import pytest

__all__ = ["Cameras", "free_port", "have_programs", "sender"]

PYTHON = "/usr/bin/python3"
"""The interpreter that Debian installs `gi` for; virtual environments have none."""
_PROBE = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"


@cache
def _missing() -> str:
    """Return what is missing for cameras, or an empty text."""
    if not Path(PYTHON).exists() or subprocess.run([PYTHON, "-c", _PROBE], capture_output=True, check=False).returncode:
        return "GStreamer's RTSP server for Python"
    return next((name for name in ("ffmpeg", "gst-launch-1.0") if shutil.which(name) is None), "")


def have_programs() -> None:
    """Skip the test where the programs are missing, but in continuous integration let it fail."""
    missing = _missing()
    if missing:
        reason = f"{missing} is missing: see tools/debian.sh"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


class Cameras:
    """A camera server: ``url(0)`` is the first camera; commands return what it answers.

    Commands: ``kick``, ``off``, ``on``, ``freeze``, ``thaw``, ``jitter`` (mean ms), ``loss`` (share), ``skew`` (ppm),
    ``pair`` (two pictures with one time), ``clip`` (which of the clips), ``stat``.
    """

    def __init__(self, *clips: Path, cameras: int = 1, **options: object) -> None:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        command = [PYTHON, str(Path(__file__).with_name("server.py")), *map(str, clips), f"--cameras={cameras}", *words]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=_system_environment()
        )
        self.num_cameras = cameras
        where = self._answer()
        self.port: int = where["port"]
        self.start_unix_ns: int = where["start_unix_ns"]
        """When picture 0 of camera 0 was taken."""

    def url(self, camera: int, credentials: str = "") -> str:
        """Return where `camera` is."""
        return f"rtsp://{credentials}127.0.0.1:{self.port}/cam{camera}"

    def __call__(self, command: str, camera: int | None = None, value: float | None = None) -> object:
        """Give one command and wait for its answer."""
        words = [word for word in (command, camera, value) if word is not None]
        self.process.stdin.write(json.dumps(words) + "\n")
        return self._answer()

    def _answer(self) -> object:
        line = self.process.stdout.readline()
        assert line, f"the camera server ended with {self.process.poll()}"
        answer = json.loads(line)
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def close(self) -> None:
        """End the server."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _system_environment() -> dict[str, str]:
    """Return the environment without what points another interpreter at this one's packages."""
    return {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    }


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def sender(*command: str, listens_on: int | None = None):
    """Run `command` until the block ends; wait until it listens on a TCP port, where it does."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if listens_on is not None:
            _wait_listening(listens_on, process)
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_listening(port: int, process: subprocess.Popen) -> None:
    """Look at the kernel's table, since connecting would be the one client that some senders serve."""
    wanted = f":{port:04X} "
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"{process.args[0]} ended with {process.returncode}")
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        if any(wanted in line.split(" 00000000:0000")[0] + " " and " 0A " in line for line in lines):
            return
        time.sleep(0.01)
    raise AssertionError(f"{process.args[0]} does not listen on port {port}")
