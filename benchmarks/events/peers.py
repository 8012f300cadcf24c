"""Decodes recordings of events as one package, in an interpreter of its own, as bench_events.py asks.

python peers.py PACKAGE FORM FILE: prints the package's version, then for each line on standard input: ``decode`` once and print
seconds; ``digest`` and print how many events there are and a digest of their times, columns, rows and polarities.
"""

import hashlib
import json
import sys
import time
from importlib.metadata import version

import numpy as np


def ours(form, path):
    """Return what decodes all of a file into arrays; read and decoded anew at each call."""
    from hyperframes.media.event_files import open_events_file

    def decode():
        events = open_events_file(path).read()
        return events.t, events.x, events.y, events.p

    return decode


def evt3(form, path):
    """Rust, EVT 3 only."""
    import evt3 as package

    def decode():
        events = package.decode_file(path)
        return events.timestamp, events.x, events.y, events.polarity

    return decode


def expelliarmus(form, path):
    """C; one structured array."""
    from expelliarmus import Wizard

    wizard = Wizard(encoding=form)

    def decode():
        events = wizard.read(path)
        return events["t"], events["x"], events["y"], events["p"]

    return decode


def answer(value):
    """Send a line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(package, form, path):
    """Answer requests until there are none."""
    decode = {"hyperframes": ours, "evt3": evt3, "expelliarmus": expelliarmus}[package](form, path)
    name = {"hyperframes": "hyperframes-engine"}.get(package, package)
    answer({package: version(name), "numpy": version("numpy")})
    for line in sys.stdin:
        if line.strip() == "digest":
            columns = decode()
            digest = hashlib.sha256()
            for column, dtype in zip(columns, (np.int64, np.uint16, np.uint16, np.uint8), strict=True):
                digest.update(np.ascontiguousarray(column, dtype).tobytes())
            answer({"events": len(columns[0]), "digest": digest.hexdigest()[:16]})
        else:
            began, cpu = time.perf_counter(), time.process_time()
            columns = decode()
            answer({"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu})
            del columns


if __name__ == "__main__":
    main(*sys.argv[1:4])
