"""The one place where errors become text: a sentence, a hint, an exit code, and no traceback without ``--debug``."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from hyperframes.errors import (
    CancelledError,
    HyperframesError,
    PipelineError,
    RegistryError,
    SinkError,
    without_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Interrupted",
    "RunBegins",
    "RunFailed",
    "Told",
    "console",
    "exit_code_of",
    "set_debug",
    "tell",
    "told",
    "warnings_told",
]

PIPED_COLUMNS = 160
FAILED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = (
    "run",
    "plan",
    "tune",
    "budget",
    "live",
    "journal",
    "replay",
    "anchors",
    "describe",
    "search",
    "index",
    "train",
    "evaluate",
    "export",
    "inspect",
    "advise",
    "operators",
    "doctor",
    "bench",
    "demo",
)

_state = {"debug": False, "running": False}


class Interrupted(HyperframesError):
    """Somebody pressed Ctrl-C; the hint says what was kept."""


class RunFailed(HyperframesError):
    """A run that came to its end, but not with what was asked for."""


class Told(NamedTuple):
    """How an error reads."""

    message: str
    hint: str | None
    code: int


def set_debug(wanted: bool) -> None:
    """Show tracebacks from now on."""
    if wanted:
        _state["debug"] = True


class RunBegins:
    """An instrument that notes when frames begin to flow: sinks that fail from then on are no wrong usage."""

    def observe(self, observation: dict[str, Any]) -> None:
        """Take note of the beginning."""
        if observation["kind"] == "began":
            _state["running"] = True


def exit_code_of(app: Any, arguments: list[str]) -> int:
    """Run `app`, tell what went wrong on stderr, and return the exit code."""
    _state["debug"] = os.environ.get("HYPERFRAMES_DEBUG", "") not in {"", "0"}
    _state["running"] = False
    try:
        code = app(arguments, prog_name="hyperframes", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `hyperframes operators | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told to the user, whatever it is
        if _state["debug"]:
            print(without_credentials(traceback.format_exc()), end="", file=sys.stderr)
        text = told(error)
        tell("error", text.message)
        hint = text.hint or (_help_hint(arguments) if text.code == USAGE else None)
        if hint:
            tell("hint", hint)
        return text.code
    if code == INTERRUPTED:  # the parser's own answer to Ctrl-C outside of a run
        tell("error", "interrupted")
    return code if isinstance(code, int) else 0


def _help_hint(arguments: list[str]) -> str:
    command = f" {arguments[0]}" if arguments and arguments[0] in COMMANDS else ""
    return f"See 'hyperframes{command} --help'."


def tell(kind: str, message: str) -> None:
    """Print one line for people, such as ``warning: ...``, on stderr."""
    line = f"{kind}: {without_credentials(message)}\n"
    print(line, end="", file=sys.stderr)  # in one piece: several threads tell


@contextlib.contextmanager
def warnings_told(known: set[str] | None = None) -> Iterator[None]:
    """Print what the library warns of meanwhile as lines for people, each once: what is `known` is not told again."""
    known = set() if known is None else known
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for text in (str(w.message) for w in caught if issubclass(w.category, UserWarning)):
                if text not in known:
                    known.add(text)
                    tell("warning", text)


def console(file: TextIO | None = None) -> Any:
    """Return rich's console, on stdout or a file: as wide as the terminal, or wide enough for a line each without one."""
    from rich.console import Console

    file = file or sys.stdout
    if file.isatty():
        return Console(file=file, highlight=False)
    return Console(file=_Unpadded(file), highlight=False, width=PIPED_COLUMNS)  # type: ignore[arg-type]  # it writes


class _Unpadded:
    """A file to which lines go without the spaces that tables fill them up with."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        self._file.write(re.sub(r"[ ]+(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def told(error: BaseException) -> Told:
    """Return how `error` reads."""
    if hasattr(error, "format_message"):  # the parser's own errors: unknown options, missing arguments
        return _usage(error)
    if isinstance(error, KeyboardInterrupt | Interrupted | CancelledError):
        return Told(str(error) or "interrupted", getattr(error, "hint", None), INTERRUPTED)
    if isinstance(error, HyperframesError):
        usage = isinstance(error, PipelineError | RegistryError)
        usage |= isinstance(error, SinkError) and not _state["running"]  # an unknown suffix, a folder that is not there
        code = USAGE if usage else FAILED
        return Told(_one_line(str(error)), error.hint, code)
    if isinstance(error, MemoryError):
        return Told("out of memory", "Use a smaller --size, fewer --workers, or --max-memory.", FAILED)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return Told(f"{error.strerror.lower()}{where}", "Run it again with --debug to see where it happened.", FAILED)
    return Told(
        f"internal error: {type(error).__name__}: {_one_line(str(error))}",
        "This is a bug in hyperframes: please report it with what --debug prints.",
        FAILED,
    )


def _one_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def _usage(error: Any) -> Told:
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "message", "") or error.format_message())
    if type(error).__name__ == "MissingParameter":
        message = f"{error.param.metavar or error.param.name.upper()} is missing"
    elif type(error).__name__ == "BadParameter":
        message = error.format_message()
    message = _one_line(message).partition(". Did you mean")[0].rstrip(".")
    near = _nearest(error, message, context)
    return Told(message[:1].lower() + message[1:], f"Did you mean {near!r}?" if near else None, USAGE)


def _nearest(error: Any, message: str, context: Any) -> str | None:
    """Return the option or command that was probably meant."""
    import difflib

    wrong = getattr(error, "option_name", None)
    if wrong and context is not None:
        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]
    elif context is not None and hasattr(context.command, "commands") and "'" in message:
        wrong, known = message.split("'")[1], list(context.command.commands)
    else:
        return None
    if wrong in known:  # it is there, but used wrongly
        return None
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    return near[0] if near else None
