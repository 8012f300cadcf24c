"""Colour descriptions between PyAV's integers and FFmpeg's names."""

from __future__ import annotations

from typing import Any, Final

from hyperframes.frames import Colour

__all__ = ["MATRICES", "PRIMARIES", "RANGES", "TRANSFERS", "colour_of", "set_colour"]

# ISO/IEC 23091-2 code points with the names of libavutil (av_color_space_name and its three sisters).
MATRICES: Final = {
    "gbr": 0, "bt709": 1, "unspecified": 2, "fcc": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "ycgco": 8,
    "bt2020nc": 9, "bt2020c": 10, "smpte2085": 11, "chroma-derived-nc": 12, "chroma-derived-c": 13, "ictcp": 14,
    "ipt-c2": 15, "ycgco-re": 16, "ycgco-ro": 17,
}  # fmt: skip
PRIMARIES: Final = {
    "bt709": 1, "unspecified": 2, "bt470m": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "film": 8, "bt2020": 9,
    "smpte428": 10, "smpte431": 11, "smpte432": 12, "ebu3213": 22,
}  # fmt: skip
TRANSFERS: Final = {
    "bt709": 1, "unspecified": 2, "bt470m": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "linear": 8, "log100": 9,
    "log316": 10, "iec61966-2-4": 11, "bt1361e": 12, "iec61966-2-1": 13, "bt2020-10": 14, "bt2020-12": 15,
    "smpte2084": 16, "smpte428": 17, "arib-std-b67": 18,
}  # fmt: skip
RANGES: Final = {"unspecified": 0, "tv": 1, "pc": 2}


def colour_of(described: Any, *, full_range: bool = False) -> Colour:
    """Return the colour description of a PyAV frame or codec context.

    Parameters
    ----------
    described : av.VideoFrame or av.VideoCodecContext
        What carries the four code points.
    full_range : bool
        True for the ``yuvj`` pixel formats, whose name says the range.
    """
    return Colour(
        matrix=_name(MATRICES, described.colorspace),
        range="pc" if full_range else _name(RANGES, described.color_range),
        primaries=_name(PRIMARIES, described.color_primaries),
        transfer=_name(TRANSFERS, described.color_trc),
    )


def set_colour(context: Any, colour: Colour) -> None:
    """Write `colour` to a PyAV encoder context or frame; unknown names are written as unspecified."""
    context.colorspace = MATRICES.get(colour.matrix, MATRICES["unspecified"])
    context.color_range = RANGES.get(colour.range, RANGES["unspecified"])
    context.color_primaries = PRIMARIES.get(colour.primaries, PRIMARIES["unspecified"])
    context.color_trc = TRANSFERS.get(colour.transfer, TRANSFERS["unspecified"])


def _name(table: dict[str, int], code: Any) -> str:
    number = int(code)
    return next((name for name, value in table.items() if value == number), "unspecified")
