"""Carry out a pipeline: offline over files, live over cameras."""

from hyperframes.drivers.engine import Engine
from hyperframes.drivers.handle import Run
from hyperframes.drivers.live import LiveResult, LiveRuntime
from hyperframes.drivers.offline import run, start, stream
from hyperframes.drivers.result import RunResult
from hyperframes.drivers.setup import Setup, set_up

__all__ = ["Engine", "LiveResult", "LiveRuntime", "Run", "RunResult", "Setup", "run", "set_up", "start", "stream"]
