"""How streams are shared out over nodes and what all of them count: decided on plain values."""

from hypothesis import given
from hypothesis import strategies as st

from hyperframes.drivers.shares import Shares


def told(streams, **more):
    """Return what a node of these streams would tell; {name: (captured, delivered, dropped)}."""
    counts = {
        name: {
            "captured": captured, "delivered": delivered, "dropped": {"late": dropped} if dropped else {},
            "in_flight": captured - delivered - dropped, "epoch": 0, "state": "connected", "fps": 25.0,
            "last_frame_age_seconds": 0.1, "reconnects": 0, "span_error_seconds": 0.0, "drift_ppm": 0.0,
        }
        for name, (captured, delivered, dropped) in streams.items()
    }  # fmt: skip
    for name, fields in more.items():
        counts[name] |= fields
    latency = {"total": {"p50": 0.1 * len(streams), "p99": 0.2}}
    return {
        "streams": counts, "hyperframes": 3, "partial": 1, "sealed": {"full": 2, "end": 1}, "latency_seconds": latency,
        "queue": {"depth": 1, "capacity": 4, "mean_depth": 0.5}, "callback_errors": 0, "level": 0, "lock_wait_share": 0.0,
        "device": {"resource": "compute", "workers": 1, "busy_share": 0.5, "failures": 0},
    }  # fmt: skip


def closes(stats):
    for counts in (stats, *stats["streams"].values()):
        assert counts["captured"] == counts["delivered"] + sum(counts["dropped"].values()) + counts["in_flight"]
        assert min(counts["captured"], counts["delivered"], counts["in_flight"], *counts["dropped"].values(), 0) >= 0


def test_streams_go_where_there_is_most_room_for_what_a_node_can_do():
    shares = Shares()
    shares.join("large", 4)
    shares.join("small", 1)
    nodes = [shares.place(f"cam{i}").node for i in range(10)]
    assert (nodes.count("large"), nodes.count("small")) == (8, 2)


def test_spatial_hyperframes_keep_all_streams_on_one_node():
    shares = Shares(together=True)
    shares.join("a")
    shares.join("b")
    assert {shares.place(f"cam{i}").node for i in range(5)} == {"a"}
    assert {move.node for move in shares.lose("a", "gone")} == {"b"}


def test_what_a_lost_node_had_in_flight_is_lost_and_its_streams_go_on_elsewhere_in_a_new_epoch():
    shares = Shares()
    shares.join("a")
    shares.join("b")
    for name in ("x", "y"):
        shares.place(name)
    shares.tell("a", told({"x": (10, 7, 1)}, x={"epoch": 2}))
    shares.tell("b", told({"y": (5, 5, 0)}))
    (move,) = shares.lose("a", "it was killed")
    assert (move.stream, move.node, move.epoch) == ("x", "b", 3)
    shares.tell("b", told({"y": (6, 6, 0), "x": (4, 3, 0)}, x={"epoch": 3}))
    stats = shares.stats()
    closes(stats)
    assert stats["streams"]["x"]["dropped"] == {"late": 1, "node_lost": 2}
    assert (stats["streams"]["x"]["captured"], stats["streams"]["x"]["delivered"]) == (14, 10)
    assert (stats["streams"]["x"]["epoch"], stats["streams"]["x"]["node"], stats["streams"]["x"]["reconnects"]) == (
        3,
        "b",
        1,
    )
    assert stats["nodes"] == {
        "a": {"state": "lost: it was killed", "streams": []},
        "b": {"state": "running", "streams": ["x", "y"]},
    }
    assert stats["hyperframes"] == 6
    assert stats["latency_seconds"] == {"total": {"p50": 0.2, "p99": 0.2}}
    assert stats["queue"]["capacity"] == 4


def test_of_a_lost_node_only_the_results_that_came_count_as_delivered():
    shares = Shares(collects=True)
    shares.join("a")
    shares.place("x")
    shares.tell("a", told({"x": (10, 7, 0)}), ["x"] * 5)
    assert shares.lose("a", "gone") == []
    assert shares.orphans == ["x"]
    stats = shares.stats()
    closes(stats)
    assert (stats["streams"]["x"]["delivered"], stats["streams"]["x"]["dropped"]) == (5, {"node_lost": 5})
    assert stats["streams"]["x"]["state"] == "lost"
    shares.join("new")
    assert [(move.stream, move.node, move.epoch) for move in shares.adopt()] == [("x", "new", 1)]


def test_streams_that_had_ended_stay_ended():
    shares = Shares()
    shares.join("a")
    shares.join("b")
    shares.place("x")
    assert not shares.over
    shares.tell("a", told({"x": (4, 4, 0)}, x={"state": "ended"}))
    assert shares.over
    assert shares.lose("a", "gone") == []
    assert shares.over
    assert (shares.stats()["delivered"], shares.stats()["streams"]["x"]["state"]) == (4, "ended")


@given(
    st.lists(st.tuples(st.sampled_from(["tell", "lose", "place"]), st.integers(0, 5), st.integers(0, 40)), max_size=30)
)
def test_counts_close_and_every_stream_has_a_node_while_there_is_one_whatever_happens(steps):
    shares, counts, names = Shares(), {}, []
    for node in range(6):
        shares.join(str(node))
    for what, number, frames in steps:
        node = str(number)
        if what == "place":
            names.append(f"cam{len(names)}")
            shares.place(names[-1])
        elif what == "tell" and node in shares.living:
            held = [name for name in names if shares.node_of(name) == node]
            for name in held:
                before = counts.get((node, name), (0, 0, 0))
                counts[node, name] = tuple(b + frames * k for b, k in zip(before, (3, 1, 1), strict=True))
            shares.tell(node, told({name: counts[node, name] for name in held}))
        elif what == "lose" and node in shares.living:
            shares.lose(node, "gone")
        closes(shares.stats())
        if shares.living:
            assert all(shares.node_of(name) in shares.living for name in names)
    assert shares.stats()["captured"] == sum(captured for captured, _, _ in counts.values())
