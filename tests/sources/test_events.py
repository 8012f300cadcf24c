"""Recordings of events as sources: order of time, streaming, and what is said of damage and odd parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.errors import SourceError
from hyperframes.frames import Events
from hyperframes.sources import events as module
from hyperframes.sources.events import in_order


class Pieces:
    """A file that is read in pieces of a chosen size."""

    def __init__(self, t, size):
        self.t, self.size = np.asarray(t), size

    def pieces(self):
        for start in range(0, len(self.t), self.size):
            t = self.t[start : start + self.size]
            yield Events.of(t, np.arange(start, start + len(t)), np.zeros(len(t)), np.zeros(len(t)))


@given(st.lists(st.integers(0, 60_000), max_size=60), st.integers(1, 61))
def test_times_ascend_and_no_event_is_lost(t, size):
    told = list(in_order(Pieces(t, size)))
    times = np.concatenate([events.t for events, _ in told]) if told else np.empty(0)
    order = np.concatenate([events.x for events, _ in told]) if told else np.empty(0)
    assert sorted(order.tolist()) == list(range(len(t)))
    assert np.all(np.diff(times) >= 0)
    late = sum(count for _, count in told)
    moved = sum(time != t[int(i)] for time, i in zip(times.tolist(), order.tolist(), strict=True))
    assert moved <= late


@given(st.lists(st.integers(0, 9_999), max_size=60), st.integers(1, 61))
def test_events_that_are_a_little_late_find_their_place(t, size):
    told = list(in_order(Pieces(t, size)))
    times = [time for events, _ in told for time in events.t.tolist()]
    assert times == sorted(t)
    assert sum(late for _, late in told) == 0


def test_a_streamed_recording_gives_what_a_held_one_gives(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    t = np.sort(random.integers(0, 1 << 20, 5000))
    np.savez(tmp_path / "x.npz", t=t, x=random.integers(0, 9, 5000), y=random.integers(0, 9, 5000),
             p=random.integers(0, 2, 5000))  # fmt: skip
    held, stepped = (hf.run(tmp_path / "x.npz", "temporal_mean:radius=1", size=s).array for s in (5000, 64))
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 0)
    streamed = hf.run(tmp_path / "x.npz", "temporal_mean:radius=1", size=512).array
    np.testing.assert_array_equal(streamed, held)
    np.testing.assert_array_equal(stepped, held)


def test_stretches_without_events_are_pictures_too(tmp_path):
    np.savez(tmp_path / "x.npz", t=[100, 5_200, 25_000], x=[1, 2, 3], y=[0, 0, 0], p=[1, 0, 1], sensor=(2, 4))
    with hf.open(f"{tmp_path}/x.npz?window=5ms") as source:
        frames = [(frame.pts, int(frame.data.sum())) for frame in source.read()]
    assert frames == [(100, 1), (5_100, 1), (10_100, 0), (15_100, 0), (20_100, 1)]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("window=fast", "window of .* is a time of whole microseconds, up to 1,000,000,000 s: got 'fast'"),
        ("window=99999999999999999999s", "window of .* is a time of whole microseconds, up to 1,000,000,000 s: got '9"),
        ("window=10ms&form=hologram", "pictures of events are histogram, voxel, surface: got 'hologram'"),
        ("window=10ms&form=voxel&bins=0", "bins of .* is a number from 1 to 256: got '0'"),
        ("sensor=0,4", "sensor of .* is ROWS,COLUMNS: got '0,4'"),
        ("speed=2", "events of .* have no 'speed'"),
        ("window=10ms", "need the size of its sensor, which it does not tell"),
    ],
)
def test_odd_parameters_are_told_in_a_sentence(tmp_path, query, sentence):
    np.savez(tmp_path / "x.npz", t=[0], x=[1], y=[1], p=[1])
    with pytest.raises(SourceError, match=sentence):
        hf.open(f"{tmp_path}/x.npz?{query}")


def test_damage_is_told_by_the_run(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes([1, 1, 0, 0, 9]) * 3 + b"\x00")
    result = hf.run(tmp_path / "x.bin", [], to="null:")
    assert any("the last 1 bytes are no whole event: the file was cut" in warning for warning in result.warnings)


def test_a_time_that_cannot_be_makes_no_endless_row_of_empty_pictures(tmp_path):
    np.savez(tmp_path / "x.npz", t=[0, 1 << 60], x=[1, 2], y=[0, 0], p=[1, 0], sensor=(2, 4))
    with hf.open(f"{tmp_path}/x.npz?window=10ms") as source, pytest.raises(SourceError, match="its times are damaged"):
        list(source.read())


def test_a_small_file_with_many_events_is_streamed(tmp_path, monkeypatch):
    columns = np.zeros(200_000, np.uint16)
    np.savez_compressed(tmp_path / "x.npz", t=np.arange(200_000), x=columns, y=columns, p=columns)
    monkeypatch.setattr(module, "IN_MEMORY_EVENTS", 100_000)
    with hf.open(tmp_path / "x.npz") as source:
        assert source.arrays() is None
        assert source.count() == 200_000
