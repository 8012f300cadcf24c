"""Where frames come from: one file per kind behind `Source`."""

from hyperframes.sources.base import Source

__all__ = ["Source"]
