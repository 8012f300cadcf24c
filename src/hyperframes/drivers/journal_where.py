"""The language of ``hyperframes journal --where``: a small grammar, compiled to SQL with every value as a parameter. Pure.

stream = cam3 and time between 12:00 and 12:01 and outcome = dropped
reason in (expired, queue_full) and not (frames = 8 or latency > 200ms)
error ~ "out of memory" or frame = 4711

expression  ::= both { "or" both }            both ::= one { "and" one }
one         ::= "not" one | "(" expression ")" | FIELD comparison
comparison  ::= ("=" | "!=" | "<" | "<=" | ">" | ">=" | "~") value
              | "between" value "and" value | "in" "(" value { "," value } ")"
value       ::= word, number, "text", duration (200ms, 1.5s), time (12:00, 12:00:01.5, 2026-11-30T12:00, seconds since 1970)
"""

from __future__ import annotations

import datetime
import difflib
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hyperframes.errors import PipelineError

__all__ = ["FIELDS", "Condition", "compile_where"]


@dataclass(frozen=True, slots=True)
class _Field:
    """What a name stands for in each of the tables that are searched; NULL where a table has no such thing."""

    kind: str
    """``text``, ``number``, ``seconds``, ``time``, ``moment`` (a span of time), ``stream``, ``frame`` or ``epoch``."""
    hyperframes: str
    losses: str = "NULL"
    help: str = ""
    words: tuple[str, ...] = ()
    """All values that it can have, where these are few."""


_MOMENT = ("coalesce(first_ns, sealed_ns)", "coalesce(last_ns, sealed_ns)")

FIELDS = {
    "stream": _Field("stream", "stream", "stream", "one of its streams"),
    "time": _Field("moment", "first_ns", "first_ns", "when its frames were taken"),
    "outcome": _Field(
        "text",
        "iif(outcome = '', 'open', outcome)",
        "'dropped'",
        "delivered, dropped or open",
        ("delivered", "dropped", "open"),
    ),
    "reason": _Field("text", "reason", "reason", "why it was dropped"),
    "seal_reason": _Field("text", "seal_reason", help="why it was sealed: full, timeout, event, ..."),
    "frame": _Field("frame", "frame_ids", "frame_ids", "a frame id that it holds"),
    "frames": _Field("number", "frames", "frames", "how many real frames it owns"),
    "sequence": _Field("number", "sequence", help="its number"),
    "id": _Field("text", "id", help="its id"),
    "kind": _Field("text", "kind", help="temporal, spatial or both"),
    "epoch": _Field("epoch", "epoch", "epoch", "of its stream, or of one of them"),
    "run": _Field("number", "run", "run", "number of the run in this file"),
    "error": _Field("text", "error", help="what an operator or a callback raised"),
    "sealed": _Field("time", "sealed_ns", help="when it was sealed"),
    "started": _Field("time", "started_ns", help="when a worker began with it"),
    "ended": _Field("time", "ended_ns", "ended_ns", "when it was delivered or dropped"),
    "wait": _Field("seconds", "wait_ns", help="from its first frame's arrival to the seal"),
    "latency": _Field("seconds", "ended_ns - sealed_ns", help="from the seal to its end"),
    "duration": _Field("seconds", "duration_ns", help="at work"),
}
"""What may be asked for, by name."""


MOST_NS = 1 << 62
"""Nanoseconds stay below that: SQLite's numbers have 64 bits."""


DEPTH_MOST = 50
"""Of brackets: Python and SQLite have their limits."""


class Condition(NamedTuple):
    """SQL conditions with their values, for each table."""

    hyperframes: str
    hyperframes_values: tuple[Any, ...]
    losses: str
    losses_values: tuple[Any, ...]


def compile_where(text: str, today: datetime.date, zone: datetime.tzinfo | None = None) -> Condition:
    """Return what `text` asks for as SQL.

    Parameters
    ----------
    text : str
        See the module's docstring; empty: everything.
    today : date
        The day that times without a date are of.
    zone : tzinfo, optional
        Of times without a zone; default: this machine's.

    Raises
    ------
    PipelineError
        That says what was expected, and where.

    Examples
    --------
    >>> compile_where("reason = expired and latency > 200ms", datetime.date(2026, 1, 1)).hyperframes
    '((reason = ?) AND (ended_ns - sealed_ns > ?))'
    """
    if not text.strip():
        return Condition("1", (), "1", ())
    one, other = (_Parser(text, table, today, zone) for table in ("hyperframes", "losses"))
    return Condition(one.whole(), tuple(one.values), other.whole(), tuple(other.values))


_TOKEN = re.compile(
    r"""\s*(?:(?P<op><=|>=|!=|<>|==|=|<|>|~)|(?P<mark>[(),])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()=<>!~,"']+))"""
)
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)(us|ms|s|m|h)?$")
_UNIT_NS = {"us": 1e3, "ms": 1e6, "s": 1e9, None: 1e9, "m": 60e9, "h": 3600e9}
_CLOCK = re.compile(r"(?:(\d{4}-\d{2}-\d{2})[T ])?(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$")
_SQL = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    """One pass over the text for one table."""

    def __init__(self, text: str, table: str, today: datetime.date, zone: datetime.tzinfo | None) -> None:
        self._text, self._table, self._today, self._zone = text, table, today, zone
        self._tokens = self._cut(text)
        self._next = self._depth = 0
        self.values: list[Any] = []

    def _cut(self, text: str) -> list[_Token]:
        tokens, at = [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._wrong("expected a field, a value or a closing quote", at)
            kind = str(match.lastgroup)
            kind, value = ("text", match[kind]) if kind in {"double", "single"} else (kind, match[kind])
            tokens.append(_Token(kind, value, match.end() - len(match[0].lstrip())))
            at = match.end()
        return [*tokens, _Token("end", "the end", len(text))]

    def _wrong(self, expected: str, at: int, hint: str | None = None) -> PipelineError:
        rest = self._text[at : at + 20].strip() or "the end"
        return PipelineError(
            f"--where: {expected}, got {rest!r} at character {at + 1} of {self._text!r}",
            got=self._text,
            hint=hint or "For example: --where 'stream = cam3 and time between 12:00 and 12:01 and outcome = dropped'",
        )

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _is(self, word: str) -> bool:
        token = self._peek()
        return token.kind in {"word", "mark"} and token.text.lower() == word

    def _accept(self, word: str) -> bool:
        found = self._is(word)
        self._next += found
        return found

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._wrong(f"expected {word!r}", self._peek().at)

    def whole(self) -> str:
        """Return the SQL of the whole text."""
        sql = self._either()
        if self._peek().kind != "end":
            raise self._wrong("expected 'and', 'or' or the end", self._peek().at)
        return sql

    def _either(self) -> str:
        parts = [self._both()]
        while self._accept("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _both(self) -> str:
        parts = [self._one()]
        while self._accept("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _one(self) -> str:
        at = self._peek().at
        self._depth += 1
        if self._depth > DEPTH_MOST:
            raise self._wrong(f"expected at most {DEPTH_MOST} brackets and 'not' in each other", at)
        if self._accept("not"):
            sql = f"(NOT coalesce({self._one()}, 0))"
        elif self._accept("("):
            sql = self._either()
            self._expect(")")
        else:
            sql = self._comparison()
        self._depth -= 1
        return sql

    def _comparison(self) -> str:
        token = self._take()
        field = FIELDS.get(token.text.lower()) if token.kind == "word" else None
        if field is None:
            near = difflib.get_close_matches(token.text, FIELDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near and token.kind == "word" else None
            raise self._wrong(f"expected one of the fields {', '.join(FIELDS)}", token.at, hint)
        if self._accept("between"):
            low = self._value(field)
            self._expect("and")
            return f"({self._compared(field, '>=', low)} AND {self._compared(field, '<=', self._value(field))})"
        if self._accept("in"):
            self._expect("(")
            parts = [self._compared(field, "=", self._value(field))]
            while self._accept(","):
                parts.append(self._compared(field, "=", self._value(field)))
            self._expect(")")
            return f"({' OR '.join(parts)})"
        operator = self._take()
        if operator.kind != "op":
            raise self._wrong("expected =, !=, <, <=, >, >=, ~, between or in", operator.at)
        if operator.text == "~":
            if field.kind not in {"text", "stream"}:
                raise self._wrong("expected =, !=, <, <=, >, >= for a number or a time", operator.at)
            text = self._take()
            if text.kind not in {"word", "text"} or not text.text:
                raise self._wrong("expected a text that it holds", text.at)
            self.values.append(text.text.lower())
            return f"(instr(lower({self._column(field)}), ?) > 0)"
        return self._compared(field, _SQL[operator.text], self._value(field))

    def _column(self, field: _Field) -> str:
        return field.hyperframes if self._table == "hyperframes" else field.losses

    def _compared(self, field: _Field, operator: str, value: Any) -> str:
        column = self._column(field)
        if column == "NULL":
            return "NULL"
        if field.kind == "stream":
            self.values.append(value)
            sql = f"(instr(char(10) || {column} || char(10), char(10) || ? || char(10)) > 0)"
            return sql if operator == "=" else f"(NOT {sql})"
        if field.kind in {"frame", "epoch"}:
            self.values.append(value)
            negated, operator = operator == "<>", "=" if operator == "<>" else operator
            sql = f"EXISTS (SELECT 1 FROM json_tree({column}) WHERE atom IS NOT NULL AND atom {operator} ?)"
            return f"(NOT {sql})" if negated else f"({sql})"
        if field.kind == "moment":
            return self._overlaps(operator, value)
        self.values.append(value)
        return f"({column} {operator} ?)"

    def _overlaps(self, operator: str, ns: int) -> str:
        """Compare a span of time: any part of it counts."""
        first, last = (
            _MOMENT if self._table == "hyperframes" else ("coalesce(first_ns, ended_ns)", "coalesce(last_ns, ended_ns)")
        )
        if operator in {"=", "<>"}:
            self.values += [ns, ns]
            sql = f"({first} <= ? AND {last} >= ?)"
            return sql if operator == "=" else f"(NOT {sql})"
        self.values.append(ns)
        return f"({first if operator[0] == '<' else last} {operator} ?)"

    def _value(self, field: _Field) -> Any:
        token = self._take()
        if token.kind not in {"word", "text"}:
            raise self._wrong("expected a value", token.at)
        if field.words and token.text not in field.words:
            raise self._wrong(f"expected one of {', '.join(field.words)}", token.at)
        if field.kind in {"text", "stream"}:
            return token.text
        if field.kind in {"number", "frame", "epoch"}:
            if not re.fullmatch(r"-?\d{1,18}", token.text, re.ASCII):
                raise self._wrong("expected a whole number of at most 18 digits", token.at)
            return int(token.text)
        if field.kind == "seconds":
            match = _DURATION.match(token.text)
            if match is None:
                raise self._wrong("expected a duration such as 200ms or 1.5s", token.at)
            ns = float(match[1]) * _UNIT_NS[match[2]]
            if abs(ns) >= MOST_NS:
                raise self._wrong("expected a duration of less than 146 years", token.at)
            return round(ns)
        return self._moment(token)

    def _moment(self, token: _Token) -> int:
        if re.fullmatch(r"\d{9,10}(\.\d+)?", token.text, re.ASCII):
            return int(Fraction(token.text) * 1_000_000_000)
        try:
            return self._clock(token.text)
        except ValueError:
            raise self._wrong("expected a time such as 12:00, 12:00:01.5 or 2026-11-30T12:00", token.at) from None

    def _clock(self, text: str) -> int:
        match = _CLOCK.match(text)
        if match is None:
            raise ValueError(text)
        date, hour, minute, second, fraction, offset = match.groups()
        day = datetime.date.fromisoformat(date) if date else self._today
        zone = datetime.datetime.fromisoformat(f"2000-01-01T00:00{offset}").tzinfo if offset else self._zone
        at = datetime.time(int(hour), int(minute), int(second or 0))
        whole = datetime.datetime.combine(day, at, zone).timestamp()
        ns = round(whole) * 1_000_000_000 + round(float(fraction or 0) * 1e9)
        if abs(ns) >= MOST_NS:
            raise ValueError(text)
        return ns
