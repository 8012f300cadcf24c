"""How wanted frames of a video are shared out to decoders."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.sources.chosen import Part, are_worth_it, parts_of


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=60, unique=True),
    st.lists(st.integers(1, 400), max_size=20, unique=True),
    st.integers(1, 8),
)
def test_every_wanted_frame_is_in_one_part_and_parts_cost_what_is_decoded(wanted, keys, num_decoders):
    positions, keys = np.array(sorted(wanted)), np.array([0, *sorted(keys)])
    starts = keys[np.searchsorted(keys, positions, side="right") - 1]
    parts = parts_of(positions, starts, num_decoders)
    assert sorted(n for part in parts for n in range(part.first, part.stop)) == list(range(len(positions)))
    lasts = {start: positions[starts == start][-1] for start in starts}
    assert sum(part.cost for part in parts) == sum(last + 1 - start for start, last in lasts.items())
    assert all(part.start == starts[part.first] for part in parts)
    ordered = [part for part in parts if part.start > 0]
    assert parts[len(parts) - len(ordered) :] == ordered  # nothing seeks to the start of the stream
    assert sorted(ordered, key=lambda part: -part.cost) == ordered


def test_frames_of_codecs_with_key_frames_only_come_in_few_parts():
    parts = parts_of(np.arange(1000), np.arange(1000), 2)
    assert len(parts) == 8
    assert {part.cost for part in parts} == {125}


def test_decoders_apart_are_worth_it_only_where_key_frames_keep_all_cores_at_work():
    even = [Part(100 * n, n, n + 1, 100) for n in range(4)]
    assert are_worth_it(even, 2, 2)
    assert not are_worth_it(even, 4, 16)  # as many threads of one decoder end sooner
    assert not are_worth_it([Part(0, 0, 1, 300), Part(300, 1, 2, 50)], 2, 2)
