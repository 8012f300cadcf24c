"""Every error that the package raises on purpose, and how each reads.

    HyperframesError
    |-- SourceError (OSError)            cannot open, cannot decode          fields: source, pts
    |-- SinkError (OSError)              cannot write                        fields: sink
    |-- FrameError (ValueError)          wrong shape, dtype, order, time     fields: expected, got, index
    |-- PipelineError (ValueError)       stages that do not fit together     fields: stage, expected, got
    |-- OperatorError (RuntimeError)     an operator failed on a hyperframe  fields: stage, hyperframe, frames
    |-- RegistryError (LookupError)      unknown name                        fields: kind, name, known
    |-- DeadlineError (TimeoutError)     a hyperframe too late, where that is an error
    |-- MissingExtraError (ImportError)  needs an optional dependency        fields: extra
    |-- CancelledError (RuntimeError)    the run was cancelled
    `-- SchedulingError (RuntimeError)   a bug in a driver; carries the last events

``str(error)`` is one sentence: what is wrong, what was expected, what was got, where. ``error.hint`` says what to do;
the command line prints it on a line of its own. Neither tells what opens doors in URLs (`without_credentials`).
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CancelledError",
    "DeadlineError",
    "FrameError",
    "HyperframesError",
    "MissingExtraError",
    "OperatorError",
    "PipelineError",
    "RegistryError",
    "SchedulingError",
    "SinkError",
    "SourceError",
    "without_credentials",
]


class HyperframesError(Exception):
    """The root of all errors of the package; `hint` says what to do about it, where that is known."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(without_credentials(message))
        self.hint = None if hint is None else without_credentials(hint)

    def __str__(self) -> str:
        # OSError formats its own arguments; the sentence is always the first one.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle sentence and fields as they are, whatever the class is made from: errors leave worker processes."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[HyperframesError], args: tuple[Any, ...], fields: dict[str, Any]) -> HyperframesError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class SourceError(HyperframesError, OSError):
    """A source that cannot be opened or decoded."""

    def __init__(self, message: str, *, source: str = "", pts: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.source = without_credentials(source)
        self.pts = pts


class SinkError(HyperframesError, OSError):
    """A sink that cannot be written."""

    def __init__(self, message: str, *, sink: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.sink = without_credentials(sink)


class FrameError(HyperframesError, ValueError):
    """A frame of the wrong shape, dtype, order or time."""

    def __init__(
        self,
        message: str,
        *,
        expected: Any = None,
        got: Any = None,
        index: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.expected, self.got, self.index = expected, got, index


class PipelineError(HyperframesError, ValueError):
    """Stages, options or parameters that do not fit together; raised before the first frame is read."""

    def __init__(
        self,
        message: str,
        *,
        stage: str = "",
        expected: Any = None,
        got: Any = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.stage, self.expected, self.got = stage, expected, got


class OperatorError(HyperframesError, RuntimeError):
    """An operator failed: names the stage, the hyperframe and its frames; the cause is ``__cause__``."""

    def __init__(
        self,
        message: str,
        *,
        stage: str = "",
        hyperframe: str = "",
        frames: tuple[int, int] = (0, 0),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.stage, self.hyperframe, self.frames = stage, hyperframe, frames


class RegistryError(HyperframesError, LookupError):
    """An unknown name; the message lists the known ones and the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.55)
        hint = f"Did you mean {near[0]!r}?" if near else f"List them with 'hyperframes {kind}s'."
        super().__init__(f"no {kind} named {name!r}; known: {', '.join(names)}", hint=hint)
        self.kind, self.name, self.known = kind, name, names


class DeadlineError(HyperframesError, TimeoutError):
    """A hyperframe was too late where that is an error."""


class MissingExtraError(HyperframesError, ImportError):
    """Something needs an optional dependency that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the {extra!r} extra",
            hint=f"Install it: python -m pip install 'hyperframes-engine[{extra}]'",
        )
        self.extra = extra


class CancelledError(HyperframesError, RuntimeError):
    """The run was cancelled before its end."""


class SchedulingError(HyperframesError, RuntimeError):
    """A bug in a driver: an event that cannot happen; `events` holds the last ones before it."""

    def __init__(self, message: str, *, events: tuple[Any, ...] = ()) -> None:
        tail = "".join(f"\n  {event!r}" for event in events)
        super().__init__(
            message + (f"; the last events were:{tail}" if tail else ""),
            hint="This is a bug in hyperframes: please report it with this message.",
        )
        self.events = events


def _user_info(quotes: str) -> re.Pattern[str]:
    """Return what finds a user and a password; `quotes` is a pattern of what else than letters may stand in them."""
    return re.compile(
        rf"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)
        (?: [^/?#\s"<>:@\[]+ : (?!\d{{1,5}}[/?#])                  # what follows the host is no port, but a password:
            (?: [^\s"<>] | {quotes} )*                             # people type / ? and # in them as they are
        |   (?: [^/?#\s"<>] | {quotes} )+                          # a user only, up to the path
        ) @""",
        re.VERBOSE,
    )


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_OF_URL = _user_info("""["<>]""")
_IN_TEXT = _user_info(r"""["<>](?![\s,:;.)\]}>]|\\?["]|$)""")
"""A quote before a comma, a bracket and the like ends the URL."""
_PARAMETER = re.compile(
    r"""(?P<name>[?&;](?P<key>[\w.%-]+)=)(?P<value>(?:(?![:,.;)\]}'`]+(?:\s|$)|'[,)\]}]|\\?["])[^&\s<>#])+)""", re.ASCII
)
_SECRET = re.compile(
    "token|passw|passphrase|passcode|secret|signature|credential|apikey|accesskey|authori|jwt"
    "|(?:^|[-_.])(?:key|auth|sig|pass|pas|pwd|pw|psw|user|usr|username|login|sid)(?:$|[-_.])"
    "|(?-i:(?<=[a-z0-9])(?:Key|Auth|Sig|Pass|Pwd|User)$)",
    re.IGNORECASE,
)
"""Names of query parameters whose values are nobody else's business, as words of their own or part of longer ones."""


def without_credentials(text: str) -> str:
    """Return `text` with what opens doors in its URLs replaced by ``***``.

    That is user names and passwords before the host, and the values of query parameters whose name sounds like a secret:
    token, key, password, auth, signature and the like.

    Examples
    --------
    >>> without_credentials("cannot open rtsp://admin:secret@10.0.0.2/stream?token=abc&channel=1: refused")
    'cannot open rtsp://***@10.0.0.2/stream?token=***&channel=1: refused'
    """
    if "://" not in text and "?" not in text:
        return text
    user_info = _OF_URL if _URL.fullmatch(text) else _IN_TEXT
    return _PARAMETER.sub(_masked, user_info.sub(r"\g<scheme>***@", text))


def _masked(parameter: re.Match[str]) -> str:
    return f"{parameter['name']}***" if _SECRET.search(parameter["key"]) else parameter[0]
