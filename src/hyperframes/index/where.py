"""What may stand in ``where``: one plain condition over the columns of descriptors, and nothing that runs anything. Pure.

source = 'a.mp4' and start_seconds between 10 and 20
not static and (source like 'line3/%' or content_hash in ('c0ffee', 'beef'))

LanceDB answers it; what is not of this form never gets there.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from hyperframes.errors import PipelineError

__all__ = ["COLUMNS", "check_where", "excerpt", "quoted"]

COLUMNS: Final = (
    *("descriptor_id", "source", "content_hash", "stream", "core_start", "core_stop", "start_seconds", "stop_seconds"),
    *("hyperframe", "parameters", "statistics", "text_model", "lag_seconds", "lag_confidence"),
    *("static", "cut", "degraded"),
)
"""The columns that a condition may name."""
_WORDS: Final = {"and", "or", "not", "in", "between", "like", "is", "null", "true", "false"}
_SHOWN: Final = 44  # characters of a long condition to both sides of what is wrong
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')
           |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
           |(?P<word>[A-Za-z_]\w*)
           |(?P<sign><=|>=|!=|<>|[=<>(),-])
           |(?P<wrong>\S))""",
    re.VERBOSE,
)


def check_where(text: str) -> str:
    """Return `text` if it is a plain condition.

    Raises
    ------
    PipelineError
        If it is empty, names something that is no column of plain values, calls a function, or has signs or words that
        conditions do not have; the message says which, and where it stands.
    """
    if not text.strip():
        raise _refused(text, "nothing", 0, "Leave it out to search everything.")
    at, depth, last = 0, 0, ""
    while match := _TOKEN.match(text, at):
        token, start, at = match[match.lastgroup or 0], match.start(match.lastgroup or 0), match.end()
        if match.lastgroup == "wrong":
            hint = "Texts stand between single quotes: 'a.mp4'." if token in "'\"`" else None
            raise _refused(text, token, start, hint)
        if text.startswith("--", start):
            raise _refused(text, "--", start, None)
        if match.lastgroup == "word":
            _check_word(text, token, start)
        depth += (token == "(") - (token == ")")
        if depth < 0 or (token == "(" and last in COLUMNS):
            raise _refused(text, token, start, None)
        last = token
    if depth:
        raise _refused(text, "the end", len(text), "A bracket is not closed.")
    return text


def _check_word(text: str, word: str, start: int) -> None:
    if word in COLUMNS or word.lower() in _WORDS:
        return
    near = difflib.get_close_matches(word, COLUMNS, n=1, cutoff=0.6)
    known = f"Columns: {', '.join(COLUMNS)}."
    raise _refused(text, word, start, f"Did you mean {near[0]!r}?" if near else known)


def _refused(text: str, got: str, at: int, hint: str | None) -> PipelineError:
    expected = "a plain condition over columns"
    return PipelineError(
        f"where {excerpt(text, at)!r}: expected {expected}, got {got!r} at character {at + 1}",
        expected=expected,
        got=got,
        hint=hint or "For example: source = 'a.mp4' and start_seconds > 10.",
    )


def excerpt(text: str, at: int = 0) -> str:
    """Return a text for a message: of a long one what stands around the character `at`.

    Examples
    --------
    >>> excerpt("static and " * 100, 0)
    'static and static and static and static and ...'
    """
    first, stop = max(0, at - _SHOWN), at + _SHOWN
    if len(text) <= 3 * _SHOWN:
        return text
    return ("..." if first else "") + text[first:stop] + ("..." if stop < len(text) else "")


def quoted(text: str) -> str:
    """Return `text` as a literal of a condition.

    Examples
    --------
    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
