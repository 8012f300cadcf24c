"""The best plain loop over a video that the demo is compared with: no hyperframes, the same work.

Decodes with all of the decoder's threads, keeps a window of frames, calls the same operator for one frame at a time,
and encodes with the same encoder and settings, on as many threads as the encoder likes.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import av
import numpy as np

from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import View, Worker
from hyperframes.packing import Header, Hyperframe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hyperframes.operators import Contract, Operator

__all__ = ["PlainResult", "plain_loop"]

ROOM = 64
"""Frames in the buffer that the window slides through: it is moved back to the front when it reaches the end."""


class PlainResult(NamedTuple):
    """What the loop did."""

    frames: int
    seconds: float
    sha256: str
    """Over the frames given to the encoder, as `hyperframes run --checksum` counts them; empty if not asked for."""


def plain_loop(
    source: Path,
    target: Path,
    operator: Operator,
    *,
    codec: str,
    codec_options: dict[str, str],
    checksum: bool = False,
) -> PlainResult:
    """Run `operator`, which gives one frame for each, over the video `source`; write the pictures to `target`."""
    digest = hashlib.sha256() if checksum else None
    began = time.perf_counter()
    with av.open(source) as reader, av.open(target, "w") as writer:
        stream = reader.streams.video[0]
        stream.thread_type = "AUTO"
        assert stream.pix_fmt is not None
        spec = FrameSpec.picture(stream.height, stream.width, stream.pix_fmt)
        out: Any = writer.add_stream(codec, rate=stream.average_rate, options=codec_options)
        out.width, out.height, out.pix_fmt = stream.width, stream.height, stream.pix_fmt
        frames = 0
        for planes in _results(_decoded(reader, stream), operator, spec):
            if digest is not None:
                for plane in planes:
                    digest.update(np.ascontiguousarray(plane).data)
            picture = _picture(planes, spec)
            picture.pts = frames
            writer.mux(out.encode(picture))
            frames += 1
        writer.mux(out.encode(None))
    seconds = time.perf_counter() - began
    return PlainResult(frames, seconds, digest.hexdigest() if digest else "")


def _decoded(reader: Any, stream: Any) -> Iterator[list[Array]]:
    for frame in reader.decode(stream):
        yield [_view(plane, frame.format.components[i]) for i, plane in enumerate(frame.planes)]


def _view(plane: Any, component: Any) -> Array:
    """Return the samples of an 8-bit plane without its padding: a view."""
    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return rows[: component.height, : component.width]


def _results(frames: Iterator[list[Array]], operator: Operator, spec: FrameSpec) -> Iterator[tuple[Array, ...]]:
    """Yield the result of every frame; the frames at both ends are repeated, as boundary 'replicate' has it."""
    contract = operator.configure((spec,))
    prepared = operator.prepare(Worker())
    window = _Window(contract, spec)
    before, after = contract.halo.before, contract.halo.after
    seen = 0
    for planes in frames:
        for _ in range(before + 1 if seen == 0 else 1):
            window.push(planes)
        seen += 1
        if seen > after:
            yield window.apply(operator, prepared)
    for _ in range(min(after, seen)):
        window.repeat()
        yield window.apply(operator, prepared)


class _Window:
    """The last frames, in one array a plane so that kernels read them in one piece."""

    def __init__(self, contract: Contract, spec: FrameSpec) -> None:
        halo = contract.halo
        self._length = halo.total + 1
        self._room = max(ROOM, 2 * self._length)
        self._planes = [np.empty((self._room, *shape), spec.dtype) for shape in spec.shapes]
        self._stop = 0
        self._spec = spec
        self._out = [np.empty((1, *shape), spec.dtype) for shape in spec.shapes]
        (output,) = contract.outputs
        self._view = View(output, 0, 1, tuple(self._out))
        self._core = slice(halo.before, halo.before + 1)
        ids = np.arange(self._length)
        self._mask = np.ones(self._length, bool)
        self._header = Header(
            sequence=0,
            id="plain",
            streams=("plain",),
            core=(halo.before, halo.before + 1),
            read=(0, self._length),
            pad_before=0,
            pad_after=0,
            frame_ids=ids,
            pts=ids,
            time_base=spec.time_base,
        )

    def push(self, planes: list[Array]) -> None:
        if self._stop == self._room:
            kept = self._length - 1
            for plane in self._planes:
                plane[:kept] = plane[self._room - kept :]
            self._stop = kept
        for held, plane in zip(self._planes, planes, strict=True):
            np.copyto(held[self._stop], plane)
        self._stop += 1

    def repeat(self) -> None:
        self.push([plane[self._stop - 1].copy() for plane in self._planes])

    def apply(self, operator: Operator, prepared: Any) -> tuple[Array, ...]:
        start = self._stop - self._length
        planes = tuple(plane[start : self._stop] for plane in self._planes)
        hyperframe = Hyperframe(self._header, planes, self._core, self._mask, self._spec)
        operator.apply((hyperframe,), (self._view,), None, prepared)
        return tuple(plane[0] for plane in self._out)


def _picture(planes: tuple[Array, ...], spec: FrameSpec) -> Any:
    frame = av.VideoFrame(spec.width, spec.height, spec.pixel_format)
    targets: Any = frame.planes  # buffers, which the stubs do not say
    for target, plane in zip(targets, planes, strict=True):
        rows = np.frombuffer(target, np.uint8).reshape(-1, target.line_size)
        rows[: plane.shape[0], : plane.shape[1]] = plane
    return frame
