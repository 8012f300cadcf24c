"""Conditions: what is plain gets through, what is not never reaches LanceDB."""

import re

import pytest

from hyperframes.errors import PipelineError
from hyperframes.index import check_where


@pytest.mark.parametrize(
    "text",
    [
        "source = 'a.mp4'",
        "source = 'it''s; drop table x --.mp4' and start_seconds > -1.5e-3",
        "not (static or cut) and lag_seconds is not null",
        "content_hash IN ('a', 'b') OR core_start BETWEEN 3 AND 7",
        "source like 'line3/%'",
        "degraded = true and stop_seconds <> .5",
    ],
)
def test_plain_conditions_pass_unchanged(text):
    assert check_where(text) == text


@pytest.mark.parametrize(
    ("text", "got", "at"),
    [
        ("", "nothing", 1),
        ("source = 'a'; delete", ";", 13),
        ("source = 'a' -- and static", "--", 14),
        ('source = "a"', '"', 10),
        ("upper(source) = 'A'", "upper", 1),
        ("source('a')", "(", 7),
        ("anchors is null", "anchors", 1),
        ("sorce = 'a'", "sorce", 1),
        ("(static", "the end", 8),
        ("static)", ")", 7),
        ("source = 'a", "'", 10),
        ("static or select 1", "select", 11),
        ("start_seconds > 1 /* x */", "/", 19),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(text, got, at):
    with pytest.raises(PipelineError, match=re.escape(f"got {got!r} at character {at}")):
        check_where(text)


def test_the_nearest_column_is_named():
    with pytest.raises(PipelineError) as raised:
        check_where("start_second > 1")
    assert raised.value.hint == "Did you mean 'start_seconds'?"
    with pytest.raises(PipelineError) as raised:
        check_where('source = "a"')
    assert "single quotes" in raised.value.hint


def test_a_long_condition_is_shown_where_it_is_wrong():
    text = "(" + "static and " * 4545 + "cut   and nope)"
    with pytest.raises(PipelineError, match=f"got 'nope' at character {text.index('nope') + 1}") as raised:
        check_where(text)
    assert len(str(raised.value)) < 250
    assert "static and cut   and nope)'" in str(raised.value)
