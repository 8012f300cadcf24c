"""Sizes, bytes and ranges as they are typed."""

import pytest

from hyperframes.cli._options import byte_size, frame_range, number_or_auto, options_given
from hyperframes.errors import PipelineError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512MB", 512 * 1000**2),
        ("2GiB", 2 * 1024**3),
        ("1.5 kB", 1500),
        ("1.5KiB", 1536),
        ("100", 100),
        ("100b", 100),
        ("3g", 3 * 1000**3),
        ("1TB", 1000**4),
    ],
)
def test_bytes_are_read_in_steps_of_1000_and_1024(text, count):
    assert byte_size("max-memory", text) == count


@pytest.mark.parametrize("text", ["", "0", "0MB", "-1MB", "MB", "1 e3", "12 parsecs", "1PB", "2i", "nan"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(PipelineError, match="--max-memory: expected a size such as 512MB or 2GiB, got ") as caught:
        byte_size("max-memory", text)
    assert caught.value.hint == "For example: --max-memory 2GiB"


@pytest.mark.parametrize(
    ("text", "pair"), [("3:9", (3, 9)), (":9", (0, 9)), ("3:", (3, None)), (":", (0, None)), (" 0:0 ", (0, 0))]
)
def test_ranges_may_leave_either_end_out(text, pair):
    assert frame_range(text) == pair


@pytest.mark.parametrize("text", ["", "3", "a:b", "1:2:3", "-1:4", "1.5:2"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(PipelineError, match="--range: expected START:STOP in frames, got "):
        frame_range(text)


def test_auto_stays_auto_and_numbers_become_numbers():
    assert number_or_auto("size", "auto") == "auto"
    assert number_or_auto("size", "16") == 16


def test_only_options_that_were_given_are_passed_on():
    assert options_given(size="4", workers=None, boundary="reflect", range="1:2", max_memory=None) == {
        "size": 4,
        "boundary": "reflect",
        "range": (1, 2),
    }
