"""The command line: parse, build a pipeline, call a driver, print."""

from hyperframes.cli._app import app, main

__all__ = ["app", "main"]
