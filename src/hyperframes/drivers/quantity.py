"""Quantities as people read and write them: bytes, seconds, counts and shares with their units."""

from __future__ import annotations

import re

__all__ = ["bytes_text", "count_text", "number_text", "rate_text", "seconds_of", "seconds_text", "share_text"]

_DURATION = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|min|h|d)\s*", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds_of(text: str) -> float:
    """Return the seconds of a duration with its unit: us, ms, s, min, h or d.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> seconds_of("200ms"), seconds_of("1.5 s"), seconds_of("7d")
    (0.2, 1.5, 604800.0)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a time such as 200ms or 1.5s")
    return float(match["number"]) * _SECONDS[match["unit"]]


def bytes_text(count: float) -> str:
    """Return bytes with a decimal unit.

    Examples
    --------
    >>> bytes_text(1_536_000), bytes_text(999)
    ('1.54 MB', '999 B')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{number_text(count / size)} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """Return a duration in the unit that fits it.

    Examples
    --------
    >>> seconds_text(0.00123), seconds_text(75), seconds_text(0)
    ('1.23 ms', '1 min 15 s', '0 s')
    """
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60} min"
    if seconds >= 60:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{number_text(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0 s"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, and a comma every three digits.

    Examples
    --------
    >>> count_text(1, "frame"), count_text(21_766, "frame")
    ('1 frame', '21,766 frames')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def rate_text(per_second: float, noun: str = "frame") -> str:
    """Return frames, or whatever `noun` says, a second.

    Examples
    --------
    >>> rate_text(1234.5), rate_text(7.25, "row")
    ('1,234 frames/s', '7.25 rows/s')
    """
    return f"{number_text(per_second)} {noun}s/s"


def share_text(share: float) -> str:
    """Return a share in percent, exact enough to tell small ones apart.

    Examples
    --------
    >>> share_text(0.1234), share_text(0.0042)
    ('12 %', '0.42 %')
    """
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def number_text(value: float) -> str:
    """Return about three significant digits, never in scientific form.

    Examples
    --------
    >>> number_text(20.0), number_text(1.234), number_text(1234.5)
    ('20', '1.23', '1,234')
    """
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 9.995 else 2}f}".rstrip("0").rstrip(".")
