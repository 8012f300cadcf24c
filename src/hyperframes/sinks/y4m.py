"""Uncompressed video as YUV4MPEG2: a file, or standard output for other programs."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import frames_only, opened, taken_clip
from hyperframes.sinks.failed import without_failed
from hyperframes.sinks.pieces import append_files
from hyperframes.sinks.staging import StagedFile, disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hyperframes.frames import Clip, FrameSpec, Records, Spec

__all__ = ["Y4mSink"]

_COLOUR_SPACES = {
    "yuv420p": "420jpeg",
    "yuv422p": "422",
    "yuv444p": "444",
    "yuv411p": "411",
    "gray": "mono",
    "yuva444p": "444alpha",
    **{
        f"yuv{sampling}p{bits}le": f"{sampling}p{bits} XYSCSS={sampling}P{bits}"
        for sampling in ("420", "422", "444")
        for bits in (9, 10, 12, 14, 16)
    },
    **{f"gray{bits}le": f"mono{bits}" for bits in (9, 10, 12, 16)},
}
_INTERLACING = {"progressive": "p", "tff": "t", "bff": "b"}
_FALLBACK_RATE = Fraction(25)


class Y4mSink(Sink):
    """Uncompressed planes with a short header, as FFmpeg and others read them.

    Parameters
    ----------
    path : path
        Final name, written beside it as ``.NAME.part``; ``-`` for standard output.

    Notes
    -----
    The format has one rate and no times: frames of a variable rate stream follow one another at its nominal rate
    (25 where there is none). Failed frames are left out.
    """

    formats: ClassVar[tuple[str, ...] | None] = tuple(_COLOUR_SPACES)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self.resumable = self.name != "-"
        self._staged: StagedFile | None = None
        self._stream: IO[bytes] | None = None

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        """Return the formats that have a name in YUV4MPEG2."""
        return self.formats

    def open(self, target: Target) -> None:
        """Write the header.

        Raises
        ------
        SinkError
            For records, for arrays that are not pictures and for formats without a name, or if the file cannot be made.
        """
        spec = frames_only(target, self.name, "a y4m stream")
        if spec.pixel_format not in _COLOUR_SPACES:
            raise SinkError(
                f"y4m has no name for {spec.pixel_format or 'arrays that are not pictures'}: "
                f"expected one of {', '.join(list(_COLOUR_SPACES)[:6])}, ...",
                sink=self.name,
                hint="Convert first with --operator convert:format=yuv420p, or write .npy.",
            )
        if self.name == "-":
            self._stream = sys.stdout.buffer
        else:
            self._staged = StagedFile(Path(self.name))
        self._write([_header(spec)])

    def place(self) -> Path | None:
        """Return the file; None for standard output."""
        return None if self.name == "-" else Path(self.name)

    def checkpoint(self) -> Checkpoint:
        """Flush the file."""
        return Checkpoint({"bytes": opened(self._staged, self.name).checkpoint()})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Cut the file to what the checkpoint told of; None if it is shorter."""
        self._staged = StagedFile.resumed(Path(self.name), int(token["bytes"]))
        return None if self._staged is None else Checkpoint(token)

    def piece_results(self, target: Target) -> int | None:
        """Return 1: files are put together at any frame; None for standard output."""
        return None if self.name == "-" else 1

    def piece(self, path: Path, first: int) -> Y4mSink:
        """Return one that writes a file of its own."""
        return Y4mSink(path)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Write the frames of all files behind one header."""
        head = _header(frames_only(target, self.name, "a y4m stream"))
        return append_files(Path(self.name), pieces, head=head)

    def write(self, result: Clip | Records) -> None:
        """Append the frames."""
        clip = without_failed(taken_clip(result, self.name))
        for t in range(len(clip)):
            planes = [np.ascontiguousarray(plane[t]).reshape(-1).view(np.uint8).data for plane in clip.planes]
            self._write([b"FRAME\n", *planes])

    def _write(self, pieces: list[bytes | memoryview]) -> None:
        if self._staged is not None:
            for piece in pieces:
                self._staged.write(piece)
            return
        if self._stream is None:
            raise SinkError(f"{self.name} is not open for writing", sink=self.name)
        try:
            with disk_errors("standard output"):
                for piece in pieces:
                    self._stream.write(piece)
        except SinkError as error:
            if not isinstance(error.__cause__, BrokenPipeError):
                raise
            raise SinkError(
                "cannot write standard output: its reader has gone", sink="-", hint="See what the other program says."
            ) from error

    def close(self) -> str:
        """Flush, or give the file its name."""
        if self._staged is not None:
            staged, self._staged = self._staged, None
            return staged.commit()
        if self._stream is not None:
            with disk_errors("standard output"):
                self._stream.flush()
            self._stream = None
        return self.name

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the file; what went to standard output cannot be taken back."""
        self._stream = None
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None


def _header(spec: FrameSpec) -> bytes:
    rate, aspect = spec.rate or _FALLBACK_RATE, spec.sample_aspect_ratio
    colour_range = {"pc": " XCOLORRANGE=FULL", "tv": " XCOLORRANGE=LIMITED"}.get(spec.colour.range, "")
    return (
        f"YUV4MPEG2 W{spec.width} H{spec.height} F{rate.numerator}:{rate.denominator} "
        f"I{_INTERLACING[spec.field_order]} A{aspect.numerator}:{aspect.denominator} "
        f"C{_COLOUR_SPACES[spec.pixel_format]}{colour_range}\n"
    ).encode()
