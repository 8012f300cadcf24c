"""The language of conditions: what it refuses, and that no value is ever taken for SQL."""

import contextlib
import datetime
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drivers.live_observations import life

from hyperframes.drivers.journal_reading import JournalReader
from hyperframes.drivers.journal_where import FIELDS, compile_where
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.errors import PipelineError

DAY = datetime.date(2026, 11, 30)
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("straem = cam3", "expected one of the fields stream, time,"),
        ("stream cam3", "expected =, !=, <, <=, >, >=, ~, between or in, got 'cam3' at character 8"),
        ("stream = ", "expected a value, got 'the end'"),
        ("stream = cam3 outcome = dropped", "expected 'and', 'or' or the end, got 'outcome = dropped'"),
        ("(stream = cam3", "expected ')', got 'the end'"),
        ("stream = 'cam3", 'expected a field, a value or a closing quote, got "\'cam3"'),
        ("frame = x", "expected a whole number of at most 18 digits, got 'x'"),
        ("frame = 9223372036854775808", "expected a whole number of at most 18 digits"),
        ("epoch = ½", "expected a whole number of at most 18 digits"),
        ("latency > 99999999999h", "expected a duration of less than 146 years"),
        ("sealed > 99999999999999", "expected a time such as 12:00"),
        ("sealed > 2300-01-01T00:00", "expected a time such as 12:00"),
        ("sealed > 0001-01-01T00:00", "expected a time such as 12:00"),
        ("not " * 60 + "frame = 1", "expected at most 50 brackets and 'not' in each other"),
        ("(" * 5000, "expected at most 50 brackets"),
        ("error ~", "expected a text that it holds, got 'the end'"),
        ("error ~ ''", "expected a text that it holds"),
        ("error ~ (a)", "expected a text that it holds"),
        ("outcome = lost", "expected one of delivered, dropped, open, got 'lost'"),
        ("latency > soon", "expected a duration such as 200ms or 1.5s, got 'soon'"),
        ("time > noon", "expected a time such as 12:00"),
        ("time > 25:00", "expected a time such as 12:00"),
        ("time between 12:00", "expected 'and', got 'the end'"),
        ("frames ~ 8", "for a number or a time, got '~ 8'"),
        ("reason in expired", "expected '(', got 'expired'"),
        ("1 = 1; DROP TABLE runs", "expected one of the fields"),
        ("stream = a) OR (1", "expected 'and', 'or' or the end, got ') OR (1'"),
        ("stream = a or hyperframes = b", "expected one of the fields"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, wanted):
    with pytest.raises(PipelineError) as caught:
        compile_where(text, DAY)
    assert wanted in str(caught.value)
    assert caught.value.hint


def test_the_nearest_field_is_named():
    with pytest.raises(PipelineError) as caught:
        compile_where("straem = cam3", DAY)
    assert caught.value.hint == "Did you mean 'stream'?"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12:00", 43_200.0),
        ("12:00:01.5", 43_201.5),
        ("2026-11-30T12:00", 43_200.0),
        ("'2026-11-30 12:00'", 43_200.0),
        ("12:00Z", 43_200.0),
        ("12:00+02:00", 36_000.0),
        ("1796040000.25", 0.25),
    ],
)
def test_times_are_read_to_the_nanosecond(text, seconds):
    midnight = int(datetime.datetime(2026, 11, 30, tzinfo=UTC).timestamp())
    base = 1_796_040_000 if text.startswith("1796") else midnight
    (ns,) = compile_where(f"sealed > {text}", DAY, UTC).hyperframes_values
    assert ns == base * 1_000_000_000 + round(seconds * 1e9)


@given(
    st.text(st.characters(blacklist_characters="'\n\0", blacklist_categories=["Cs"]), min_size=1), st.text(max_size=10)
)
def test_a_value_is_only_ever_a_value(value, other):
    """Whatever stands between quotes finds the stream of exactly that name."""
    condition = compile_where(f"stream = '{value}'", DAY)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE hyperframes (stream TEXT)")
    names = [value, other.replace("\n", " ").replace("\0", ""), "cam0"]
    database.executemany("INSERT INTO hyperframes VALUES (?)", [(name,) for name in names])
    query = f"SELECT stream FROM hyperframes WHERE {condition.hyperframes}"
    found = [row[0] for row in database.execute(query, condition.hyperframes_values)]
    database.close()
    assert found == [name for name in names if name == value]


_SIMPLE = st.tuples(
    st.sampled_from(["frames", "sequence"]), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(0, 4)
)
_TREE = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=8,
)


def text_of(tree):
    if tree[0] == "not":
        return f"not ({text_of(tree[1])})"
    if tree[0] in {"and", "or"}:
        return f"({text_of(tree[1])}) {tree[0]} ({text_of(tree[2])})"
    return f"{tree[0]} {tree[1]} {tree[2]}"


def holds(tree, row):
    if tree[0] == "not":
        return not holds(tree[1], row)
    if tree[0] == "and":
        return holds(tree[1], row) and holds(tree[2], row)
    if tree[0] == "or":
        return holds(tree[1], row) or holds(tree[2], row)
    value = row[tree[0]]
    return {
        "=": value == tree[2],
        "!=": value != tree[2],
        "<": value < tree[2],
        "<=": value <= tree[2],
        ">": value > tree[2],
        ">=": value >= tree[2],
    }[tree[1]]


@given(_TREE)
def test_and_or_not_and_brackets_mean_what_they_mean_elsewhere(tree):
    condition = compile_where(text_of(tree), DAY)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE hyperframes (frames INTEGER, sequence INTEGER)")
    rows = [{"frames": a, "sequence": b} for a in range(5) for b in range(5)]
    database.executemany("INSERT INTO hyperframes VALUES (:frames, :sequence)", rows)
    query = f"SELECT frames, sequence FROM hyperframes WHERE {condition.hyperframes}"
    found = set(database.execute(query, condition.hyperframes_values))
    database.close()
    assert found == {(row["frames"], row["sequence"]) for row in rows if holds(tree, row)}


def test_every_field_says_what_it_is():
    assert all(field.help for field in FIELDS.values())


_WORDS = [
    *FIELDS,
    "and",
    "or",
    "not",
    "in",
    "between",
    "(",
    ")",
    ",",
    "=",
    "!=",
    "<",
    ">=",
    "~",
    "<>",
    "==",
    "cam3",
    "12:00",
]
_WORDS += [
    "-1",
    "0",
    "1" * 30,
    "200ms",
    "1e9",
    "''",
    "'a b'",
    '"',
    "\u00b2",
    "\0",
    "full",
    "delivered",
    "2026-02-30T12:00",
]


@given(st.lists(st.sampled_from(_WORDS), max_size=9).map(" ".join) | st.text(max_size=30))
def test_any_text_is_a_condition_that_sqlite_takes_or_is_refused(small_journal, text):
    with JournalReader(small_journal) as reader, contextlib.suppress(PipelineError):
        reader.find(text)


@pytest.fixture(scope="module")
def small_journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("where") / "live.journal"
    with LiveJournal(path) as journal:  # conditions are only worked out where there are rows
        for observation in [*life(0), *life(1, dropped="expired")]:
            journal.observe(observation)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("epoch > 9", [10, 12]),
        ("epoch = 9", [9]),
        ("epoch between 2 and 10", [2, 9, 10]),
        ("epoch != 9", [2, 10, 12]),
        ("epoch in (2, 12)", [2, 12]),
    ],
)
def test_epochs_are_numbers_also_where_there_are_several(text, found):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE hyperframes (epoch TEXT)")
    database.executemany("INSERT INTO hyperframes VALUES (?)", [("2",), ("9",), ("10",), ("[12, 13]",), (None,)])
    condition = compile_where(text, DAY)
    rows = database.execute(
        f"SELECT epoch FROM hyperframes WHERE {condition.hyperframes}", condition.hyperframes_values
    )
    assert [{"[12, 13]": 12}.get(epoch) or int(epoch) for (epoch,) in rows if epoch is not None] == found
    database.close()
