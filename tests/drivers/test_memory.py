"""Memory of a run: read where it grows, followed cheaply elsewhere."""

import subprocess
import sys
import time

import numpy as np
import pytest

from hyperframes.drivers import memory
from hyperframes.drivers.memory import MemorySampler, tree_pss_bytes

MIB = 1 << 20


def test_the_size_of_the_tree_follows_what_is_held_and_counts_children():
    before = tree_pss_bytes()
    held = np.ones(64 * MIB, np.uint8)
    grown = tree_pss_bytes()
    assert 48 * MIB < grown - before < 80 * MIB  # what else this process frees or takes meanwhile counts, too
    with subprocess.Popen(
        [sys.executable, "-c", "held = bytearray(64 << 20); print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout.readline() == b"1\n"
        assert tree_pss_bytes() - grown > 48 * MIB
        child.communicate(b"\n")
    assert len(held) == 64 * MIB


@pytest.fixture(autouse=True)
def nothing_read_before(monkeypatch):
    monkeypatch.setattr(memory, "_read_alone", (0, 0))


def test_pages_of_a_process_alone_are_walked_once_and_what_it_takes_then_counts(monkeypatch):
    walks, seen = [], []
    monkeypatch.setattr(memory, "_pss_bytes", lambda process: walks.append(process) or 1000)
    sizes = iter([10 * MIB, 30 * MIB, 20 * MIB, 40 * MIB])
    monkeypatch.setattr(memory, "_tree", lambda: [object()])
    monkeypatch.setattr(memory, "_rss_bytes", lambda process: next(sizes))
    first, later = MemorySampler(seen.append), None
    for _ in range(3):
        first._sample()
    later = MemorySampler(seen.append)
    later._sample()
    assert len(walks) == 1
    assert [told["bytes"] - 1000 for told in seen] == [0, 20 * MIB, 10 * MIB, 30 * MIB]
    assert (first._peak, later._peak) == (1000 + 20 * MIB, 1000 + 30 * MIB)


def test_pages_are_walked_only_where_the_resident_size_grew(monkeypatch):
    walks = []
    monkeypatch.setattr(memory, "_pss_bytes", lambda process: walks.append(process) or 1000)
    sizes = iter([10 * MIB, 10 * MIB, 10 * MIB + 5, 30 * MIB, 20 * MIB])
    monkeypatch.setattr(memory, "_tree", lambda: [object(), None])  # a process and its child, which takes nothing
    monkeypatch.setattr(memory, "_rss_bytes", lambda process: 0 if process is None else next(sizes))
    monkeypatch.setattr(memory, "_pss_bytes", lambda process: 0 if process is None else walks.append(process) or 1000)
    seen = []
    sampler = MemorySampler(seen.append)
    sampler.SHARE = 1e9  # as often as it grows
    for _ in range(5):
        sampler._sample()
    assert len(walks) == 2
    assert [told["bytes"] for told in seen] == [1000] * 5
    assert sampler._peak == 1000


def test_growth_between_two_walks_still_counts(monkeypatch):
    monkeypatch.setattr(memory, "_pss_bytes", lambda process: time.sleep(0.01) or 1000)
    sizes = iter([10 * MIB, 50 * MIB, 20 * MIB])
    monkeypatch.setattr(memory, "_tree", lambda: [object()])
    monkeypatch.setattr(memory, "_rss_bytes", lambda process: next(sizes))
    sampler = MemorySampler(lambda told: None)
    for _ in range(3):
        sampler._sample()
    assert sampler._peak == 1000 + 40 * MIB


@pytest.mark.parametrize("held", [64 * MIB])
def test_a_peak_is_told_at_the_end(held):
    before = tree_pss_bytes()
    sampler = MemorySampler(lambda told: None, interval_seconds=60)
    sampler.start()
    block = np.ones(held, np.uint8)
    assert sampler.stop() - before > held * 0.9
    assert len(block) == held
