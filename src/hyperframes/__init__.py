"""Frames in, hyperframes through, results out: sources -> packing -> scheduling -> operators -> sinks."""

__version__ = "0.1.0"
