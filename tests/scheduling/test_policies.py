import random

from hypothesis import given
from hypothesis import strategies as st

from hyperframes.scheduling.policies import LazyHeap, ReadyQueue, Turns
from hyperframes.scheduling.state import IdRanges


def test_a_lazy_heap_skips_the_dead_and_keeps_equal_keys_in_order():
    alive = {"a": True, "b": True, "c": True, "d": True}
    heap = LazyHeap(alive.__getitem__)
    for key, item in ((2, "a"), (1, "b"), (1, "c"), (0, "d")):
        heap.push((key,), item)
    alive["d"] = False
    assert heap.peek() == ((1,), "b")
    assert [heap.pop() for _ in range(3) if heap.peek()] == ["b", "c", "a"]
    assert heap.peek() is None


def test_dead_items_are_swept_out_even_where_they_never_come_to_the_front():
    dead = set()
    heap = LazyHeap(lambda item: item not in dead)
    heap.push((-1,), -1)
    for item in range(10_000):
        heap.push((item,), item)
        dead.add(item)
    assert len(heap) <= 130
    assert heap.peek() == ((-1,), -1)


def test_two_queues_share_the_turns_of_streams():
    turns = Turns(fair=True)
    first, second = (ReadyQueue(lambda item: True, turns) for _ in range(2))
    for queue in (first, second):
        for stream in "ab":
            queue.push(0, stream, (0,), stream)
    assert first.peek() is not None
    assert first.pop() == "a"
    assert second.peek() is not None
    assert second.pop() == "b"  # a was served through the other queue


def test_the_turns_of_an_ended_stream_are_forgotten():
    turns = Turns(fair=True)
    turns.serve(turns.lane(0, "a"))
    turns.serve(turns.lane(1, "b"))
    turns.forget("a")
    assert (turns.of((0, "a")), turns.of((1, "b"))) == (0, 1)


def test_streams_that_wait_for_the_same_turn_go_in_the_order_in_which_they_came():
    queue = ReadyQueue(lambda item: True, Turns(fair=True))
    order = [2, 10, 1, 11, 0]
    for _ in range(3):  # also once every stream has had turns
        for stream in order:
            queue.push(0, f"cam{stream}", (0,), stream)
        assert [queue.pop() for _ in order if queue.peek()] == order


def test_a_stream_that_comes_back_has_no_turns_saved_up():
    queue = ReadyQueue(lambda item: True, Turns(fair=True))
    for item in range(6):
        queue.push(0, "busy", (item,), "busy")
    for _ in range(4):
        assert queue.peek()
        queue.pop()
    for item in range(4):
        queue.push(0, "back", (item,), "back")
    assert [queue.pop() for _ in range(6) if queue.peek()] == ["back", "busy", "back", "busy", "back", "back"]


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(0, 1), st.sampled_from("abcd")), st.just("serve")), min_size=1, max_size=120
    )
)
def test_streams_that_wait_all_the_time_get_as_many_turns_as_each_other(steps):
    queue = ReadyQueue(lambda item: True, Turns(fair=True))
    waiting: dict[tuple[int, str], list[int]] = {}
    since: dict[frozenset, dict] = {}  # of each two of one priority: what each got since both wait
    for number, step in enumerate(steps):
        if step != "serve":
            queue.push(*step, (number,), (step, number))
            waiting.setdefault(step, []).append(number)
        elif waiting:
            assert queue.peek()
            lane, item = queue.pop()
            assert lane[0] == max(priority for priority, _ in waiting), "the highest priority first"
            assert item == waiting[lane].pop(0), "a stream's own in order"
            for pair, got in since.items():
                got[lane] = got.get(lane, 0) + (lane in pair)
            if not waiting[lane]:
                del waiting[lane]
        pairs = {frozenset((a, b)) for a in waiting for b in waiting if a < b and a[0] == b[0]}
        since = {pair: since.get(pair, {}) for pair in pairs}
        for pair, got in since.items():
            first, second = (got.get(lane, 0) for lane in pair)
            assert abs(first - second) <= 1


def test_ranges_of_ids_are_a_set():
    dice = random.Random(7)
    ranges, plain = IdRanges(), set()
    for _ in range(2000):
        number = dice.randrange(60)
        if dice.random() < 0.6:
            ranges.add(number)
            plain.add(number)
        else:
            ranges.discard(number)
            plain.discard(number)
        assert list(ranges) == sorted(plain)
        assert (number in ranges) == (number in plain)
        assert ranges.num_ranges == sum(n - 1 not in plain for n in plain)
