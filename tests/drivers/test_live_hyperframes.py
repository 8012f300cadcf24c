"""What a live hyperframe is: raw frames stacked in one array, under one header, made by a capture that does nothing slow."""

import threading

import numpy as np
import pytest
from tests.drivers.live_runs import Run

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output

NS = 1_000_000_000


class Keeping(Operator):
    """Passes frames through, and keeps each array that it was given, and where it was; waits for `held` where there is one."""

    name = "keeping"

    def __init__(self, held=None):
        self.arrays, self.threads, self.whole, self.held, self.began = [], set(), [], held, threading.Event()

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        (given,) = inputs
        self.arrays.append(given.core_data.copy())
        self.whole.append(given.core_data.flags.c_contiguous)
        self.threads.add(threading.current_thread())
        self.began.set()
        if self.held is not None:
            self.held.wait(60)
        outputs[0].data[...] = given.core_data


def colour(number, shape=(6, 8, 3)):
    """Return a picture of which every sample tells its number and place."""
    return (np.arange(np.prod(shape)).reshape(shape) + 7 * number).astype(np.uint8)


def played(packing, ids, *, first_second=1000.0):
    """Return what an operator was given of frames `ids`, 30 a second, and what observers were told."""
    keeping = Keeping()
    run = Run(packing=packing, operator=keeping, when_full="block")
    for number in ids:
        run.live.feed("cam0", colour(number), frame_id=number, timestamp=first_second + number / 30)
        run.crew.advance(1 / 30)
    run.stop()
    return keeping, run


@pytest.mark.requirement("B14")
def test_the_frames_of_a_hyperframe_share_one_header_with_its_start_its_end_and_its_range_of_numbers():
    keeping, run = played(hf.Packing(size=8), range(100, 116))
    headers = [told["header"] for told in run.kinds("sealed")]
    assert len(keeping.arrays) == len(headers) == 2
    for header, first in zip(headers, (100, 108), strict=True):
        assert (header.frame_ids[0], header.frame_ids[-1]) == (first, first + 7)
        start, end = (round((1000 + number / 30) * NS) for number in (first, first + 7))
        assert (header.pts[0], header.pts[-1]) == (start, end)
        held = [result for result in run.results if result.hyperframe == header.id]
        assert [result.frame_id for result in held] == list(range(first, first + 8))


@pytest.mark.requirement("B24")
def test_the_header_of_a_hyperframe_counts_its_frames_and_tells_the_first_and_the_last_time_and_every_number():
    ids = [10, 11, 14, 15, 16, 20, 21]
    _, run = played(hf.Packing(size=5), ids)
    for told, numbers in zip(run.kinds("sealed"), (ids[:5], ids[5:]), strict=True):
        header = told["header"]
        assert told["frames"] == len(header.frame_ids) == len(numbers)
        assert header.frame_ids.tolist() == numbers
        times = [round((1000 + number / 30) * NS) for number in numbers]
        assert (header.pts[0], header.pts[-1]) == (times[0], times[-1])
        assert header.pts.tolist() == times


@pytest.mark.requirement("B25")
def test_frames_are_stacked_in_one_array_in_the_order_of_their_times_and_passed_on():
    keeping, _ = played(hf.Packing(size=4, lateness=0.2), [0, 2, 1, 3, 4, 5, 7, 6])
    assert all(keeping.whole)
    np.testing.assert_array_equal(keeping.arrays[0], np.stack([colour(number) for number in range(4)]))
    np.testing.assert_array_equal(np.concatenate(keeping.arrays), np.stack([colour(number) for number in range(8)]))


@pytest.mark.requirement("B46")
def test_eight_colour_frames_make_an_array_of_eight_by_height_by_width_by_channels():
    keeping, _ = played(hf.Packing(), range(16))
    assert [array.shape for array in keeping.arrays] == [(8, 6, 8, 3)] * 2


@pytest.mark.requirement("B22")
def test_capture_takes_frames_as_they_are_while_operators_and_callbacks_take_their_time_elsewhere():
    """Whoever brings frames is never held up by what is done with them, nor does any of it."""
    held, delivering = threading.Event(), set()
    keeping = Keeping(held)

    def deliver(result):
        delivering.add(threading.current_thread())

    stages, packing = [keeping, "resize:width=4,height=3"], hf.Packing(size=2)
    with hf.LiveRuntime(packing=packing, operator=stages, on_result=deliver, queue=4, ttl=1000) as live:
        live.feed("cam0", colour(0), frame_id=0)
        live.feed("cam0", colour(1), frame_id=1)
        assert keeping.began.wait(30)
        for number in range(2, 40):
            live.feed("cam0", colour(number), frame_id=number)
        assert live.stats()["captured"] == 40
        assert live.stats()["delivered"] == 0
        held.set()
    assert live.stats()["delivered"] > 0
    np.testing.assert_array_equal(keeping.arrays[0], np.stack([colour(0), colour(1)]))
    assert threading.current_thread() not in delivering | keeping.threads
