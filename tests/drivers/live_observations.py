"""What a live run tells instruments of hyperframes, made by hand for tests of those that listen."""

import numpy as np

SECOND = 1_000_000_000
NOON = 1_796_040_000 * SECOND  # 2026-11-30T12:00Z, in Unix nanoseconds


def sealed(sequence, streams=("cam0",), frames=8, at=NOON, first_id=0, kind="temporal", **fields):
    shape = (frames,) if kind == "temporal" else (len(streams),)
    pts = at - SECOND // 30 * np.arange(int(np.prod(shape)) - 1, -1, -1, dtype=np.int64)
    return {
        "kind": "sealed",
        "hyperframe": sequence,
        "id": f"run/{streams[0]}/0/{sequence}",
        "streams": tuple(streams),
        "frames": int(np.prod(shape)),
        "hyperframe_kind": kind,
        "frame_ids": first_id + np.arange(int(np.prod(shape)), dtype=np.int64),
        "pts": pts.reshape(shape),
        "clocks": ("arrival",) * len(streams),
        "epoch": 0 if kind == "temporal" else (0,) * len(streams),
        "seal_reason": "full",
        "span_error_seconds": 0.0,
        "gaps": (),
        "wait_ns": 233_000_000,
        "ns": at,
        "unix_ns": at,
        **fields,
    }


def then(observation, kind, after_ms=1, **fields):
    """Return what is told of the same hyperframe later."""
    ns = observation["unix_ns"] + round(after_ms * 1e6)
    return {**observation, "kind": kind, "ns": ns, "unix_ns": ns, **fields}


def life(sequence, *, dropped="", latency_ms=20, **fields):
    """Return everything that is told of one hyperframe."""
    first = sealed(sequence, **fields)
    if dropped:
        return [first, then(first, "queued", 0), then(first, "dropped", latency_ms, reason=dropped)]
    return [
        first,
        then(first, "queued", 0),
        then(first, "started", 1, worker=0),
        then(first, "done", latency_ms - 1, worker=0, duration_ns=5_000_000),
        then(first, "delivered", latency_ms),
    ]


def lost(stream, reason, ids, at=NOON, epoch=0):
    ids = np.atleast_1d(np.asarray(ids, np.int64))
    return {
        "kind": "frames_dropped",
        "stream": stream,
        "epoch": epoch,
        "frame_ids": ids,
        "pts": np.full(len(ids), at, np.int64),
        "reason": reason,
        "count": len(ids),
        "ns": at,
        "unix_ns": at,
    }


def stream(name, state, at=NOON, **fields):
    return {
        "kind": "stream",
        "stream": name,
        "state": state,
        "reason": "",
        "epoch": 0,
        "ns": at,
        "unix_ns": at,
        **fields,
    }
