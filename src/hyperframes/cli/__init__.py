"""The command line: parse, build a pipeline, call a driver, print."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code.

    SIGTERM and SIGHUP end a run as Ctrl-C does: what is incomplete is cleaned up first.
    """
    for stream in ("stdout", "stderr"):  # None where whoever started us closed it
        if getattr(sys, stream) is None:
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115 - stays open as the stream it stands for
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP on purpose
            signal.signal(number, signal.default_int_handler)
    try:
        from hyperframes.cli._app import app, exit_code_of
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(exit_code_of(app, sys.argv[1:]))
