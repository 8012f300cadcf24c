import random

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
    assert (turns.last((0, "a")), turns.last((1, "b"))) == (0, 2)


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
