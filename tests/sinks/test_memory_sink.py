"""Results in memory: made where they are kept, whatever is expected, left out or kept by others meanwhile."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.frames import Clip, FrameSpec
from hyperframes.operators import Contract, Operator, Output
from hyperframes.sinks import MemorySink
from hyperframes.sources.array import ArraySource
from hyperframes.testing.sinks import clip_like, target_for

ROW = FrameSpec.array((3,), np.int32)


def opened(num_frames):
    sink = MemorySink()
    sink.open(target_for(ROW, num_frames=num_frames))
    return sink


def piece(planes, start, spec=ROW):
    index = np.arange(start, start + len(planes[0]))
    return Clip(tuple(planes), index * 3, index, spec)


def test_frames_made_in_lent_memory_are_not_copied():
    clip, sink = clip_like(ROW, 10), opened(10)
    lent = {start: sink.lend(start, min(start + 4, 10)) for start in (4, 0, 8)}
    for start, (plane,) in lent.items():
        plane[...] = clip.data[start : start + len(plane)]
    for start in (0, 4, 8):
        sink.write(piece(lent[start], start))
    sink.close()
    assert np.shares_memory(sink.result.data, lent[4][0])
    assert sink.result.data.tobytes() == clip.data.tobytes()
    assert sink.result.index.tolist() == clip.index.tolist()
    assert sink.result.pts.tolist() == clip.pts.tolist()


@given(st.integers(1, 30), st.integers(0, 40), st.lists(st.integers(1, 7), min_size=1), st.data())
def test_what_is_kept_does_not_depend_on_what_was_lent_or_left_out(length, expected, sizes, data):
    clip, sink = clip_like(ROW, length), opened(expected)
    bounds, kept, stashed = np.cumsum([0, *sizes]).tolist(), [], []
    places = [(a, min(b, length)) for a, b in zip(bounds, [*bounds[1:], length], strict=True) if a < length]
    made = {}
    for start, stop in data.draw(st.permutations(places)):
        lent = sink.lend(start, stop)
        assert (lent is None) == (stop > expected)
        made[start] = np.empty((stop - start, 3), np.int32) if lent is None else lent[0]
        made[start][...] = clip.data[start:stop]
        stashed.append(made[start] if data.draw(st.booleans()) else None)
    for start, stop in places:
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=stop - start, max_size=stop - start)))
        rows = np.arange(start, stop)[mask]
        kept += rows.tolist()
        planes = made[start] if mask.all() else made[start][mask]
        sink.write(Clip((planes,), clip.pts[rows], rows, ROW))
    made.clear()
    sink.close()
    assert sink.planes[0].tobytes() == clip.data[kept].tobytes()
    assert sink.result.index.tolist() == kept
    assert sink.result.pts.tolist() == clip.pts[kept].tolist()
    assert sink.result.durations.tolist() == [0] * len(kept)
    assert sink.result.mask is None


class Remembers(Operator):
    """Keeps the memory that it writes to."""

    name = "remembers"

    def __init__(self):
        self.written = []

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        self.written.append(outputs[0].data)
        outputs[0].data[...] = inputs[0].core_data + 1


@pytest.mark.parametrize("stretch", [(0, None), (5, 17)])
def test_an_operator_writes_to_the_array_that_the_run_returns(stretch):
    frames, operator = clip_like(ROW, 20).data, Remembers()
    result = hf.run(frames, operator, size=4, range=stretch)
    assert result.array.tobytes() == (frames[slice(*stretch)] + 1).tobytes()
    assert all(np.shares_memory(result.array, written) for written in operator.written)


def test_a_source_longer_than_it_says_is_kept_whole():
    frames = clip_like(ROW, 30).data

    class Understated(ArraySource):
        exact = False

        def arrays(self):
            return None

    source = Understated(frames)
    source.num_frames = 7
    assert hf.run(source, Remembers(), size=4).array.tobytes() == (frames + 1).tobytes()


def test_results_go_with_whoever_holds_them_last():
    """No cycle of a run's parts keeps them until the next collection: their memory is there for the next run at once."""
    frames = np.zeros((64, 256, 256), np.uint8)
    gc.collect()
    gc.disable()
    try:
        first = weakref.ref(hf.run(frames, "temporal_mean:radius=1").array)
        assert first() is None
    finally:
        gc.enable()
