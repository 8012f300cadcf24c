"""Where results go: one file per kind behind `Sink`."""

from hyperframes.sinks.base import Sink, Target

__all__ = ["Sink", "Target"]
