"""Live across machines: two Ray nodes on this one, of which one is killed."""

import os
import time
from collections import Counter

import numpy as np
import pytest
from tests.drivers.cluster_operators import dirty, there

import hyperframes as hf
from hyperframes.drivers.journal_reading import JournalReader
from hyperframes.drivers.live_cluster import LiveCluster
from hyperframes.errors import HyperframesError, PipelineError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes():
    """A Ray cluster of two nodes; the second one may be killed and is made anew."""
    ray = pytest.importorskip("ray") if os.environ.get("CI") != "true" else __import__("ray")
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    size = 80 << 20
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": size, "_system_config": soon}
    )  # by default a killed node is missed after a quarter of a minute
    yield cluster, lambda: cluster.add_node(num_cpus=1, object_store_memory=size)
    ray.shutdown()
    cluster.shutdown()


class Told:
    def __init__(self):
        self.seen = []

    def observe(self, observation):
        self.seen.append(observation)

    def states(self, stream):
        return [seen["state"] for seen in self.seen if seen["kind"] == "stream" and seen["stream"] == stream]


def closes(stats):
    for counts in (stats, *stats["streams"].values()):
        assert counts["captured"] == counts["delivered"] + sum(counts["dropped"].values()) + counts["in_flight"]


def wait_until(condition, seconds=40):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


SOURCES = {f"cam{i}": "synthetic:moving?frames=100000&width=64&height=48" for i in range(4)}


@pytest.mark.requirement("B21")
def test_the_streams_of_a_node_that_is_killed_go_on_on_the_other_in_a_new_epoch(nodes, tmp_path):
    cluster, add_node = nodes
    doomed = add_node()
    told, results = Told(), []
    live = LiveCluster(
        SOURCES, cluster=cluster.address, packing=hf.Packing(size=4), operator="measure", on_result=results.append,
        journal=tmp_path / "journals", instruments=(told,), when_full="block",
    )  # fmt: skip
    with live:
        wait_until(lambda: len({result.stream for result in tuple(results)}) == 4)
        before = live.stats()
        closes(before)
        shared = {stream: counts["node"] for stream, counts in before["streams"].items()}
        assert sorted(Counter(shared.values()).values()) == [2, 2]
        (name,) = [name for name, node in before["nodes"].items() if node["id"] == doomed.node_id]
        gone = [stream for stream, node in shared.items() if node == name]
        cluster.remove_node(doomed, allow_graceful=False)
        wait_until(lambda: all("taken over" in told.states(stream) for stream in gone))
        mark = len(results)
        wait_until(lambda: set(gone) <= {result.stream for result in tuple(results)[mark:] if result.epoch >= 1})
        after = live.stats()
        closes(after)
        assert after["nodes"][name]["state"].startswith("lost: ")
        assert {counts["node"] for counts in after["streams"].values()} == set(shared.values()) - {name}
        assert all("lost" in told.states(stream) for stream in gone)
    stats = live.stats()
    closes(stats)
    assert stats["in_flight"] == 0
    assert stats["delivered"] == len(results)
    for stream in SOURCES:
        ids = [(result.epoch, result.frame_id) for result in results if result.stream == stream]
        assert ids == sorted(set(ids)), "in order, none twice"
        assert {epoch for epoch, _ in ids} == ({0, 1} if stream in gone else {0})
        assert set(stats["streams"][stream]["dropped"]) <= {"node_lost"}
    rows = {}
    for path in sorted((tmp_path / "journals").iterdir()):
        if path.suffix == ".journal":
            with JournalReader(path) as reader:
                rows[path.stem] = reader.find().outcomes
    assert set(rows) == set(shared.values())
    assert (
        sum(frames for outcomes in rows.values() for (outcome, _), frames in outcomes.items() if outcome == "delivered")
        > 0
    )


def test_pixels_stay_where_they_are_and_callbacks_may_be_there(nodes, tmp_path):
    cluster, _ = nodes
    results = []
    live = LiveCluster(
        {"a": "synthetic:moving?frames=20&width=64&height=48"}, cluster=cluster.address, operator="gaussian:sigma=1",
        on_result=results.append, on_result_there=there(tmp_path / "notes"), when_full="block", pace="flat",
    )  # fmt: skip
    with live:
        assert live.wait(60)
    assert live.stats()["delivered"] == len(results) == 20
    assert isinstance(results[0].value, (tuple, dict))
    assert "shape" in str(results[0].value)
    noted = np.loadtxt(tmp_path / "notes", dtype=int)
    assert sorted(noted[:, 0]) == list(range(20))
    assert set(noted[:, 1]) == {48}, "rows of the picture, seen there"


def test_what_is_wrong_is_said_here(nodes):
    cluster, _ = nodes
    with pytest.raises(PipelineError, match="when_full: expected one of"):
        LiveCluster({}, cluster=cluster.address, when_full="never")
    live = LiveCluster({}, cluster=cluster.address, journal="/dev/null/none")
    with pytest.raises(HyperframesError):
        live.start()


def test_operators_that_fail_on_a_node_are_told_here(nodes):
    cluster, _ = nodes
    told = []

    class Watch:
        def observe(self, observation):
            if observation["kind"] == "warning":
                told.append(observation["message"])

    live = LiveCluster(
        {"a": "synthetic:moving?frames=20&width=64&height=48"}, cluster=cluster.address, packing=hf.Packing(size=4),
        operator=dirty, when_full="block", pace="flat", instruments=(Watch(),),
    )  # fmt: skip
    with live:
        assert live.wait(60)
    assert live.stats()["dropped"] == {"failed": 20}
    assert len(told) == 3  # the first, second and fourth
    assert "a: stage 'dirty' failed on frames 0 to 3" in told[0]
    assert told[2].endswith("ValueError: the lens is dirty (4 hyperframes so far)")
