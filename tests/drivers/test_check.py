"""The self-check: equal where operators keep their word, and telling where and how they do not."""

import json

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers.check import check
from hyperframes.errors import PipelineError
from hyperframes.frames import Clip, Frame, FrameSpec
from hyperframes.pipeline import Pipeline
from hyperframes.sources import ArraySource, Source


def frames(count=60):
    return np.random.default_rng(2).integers(0, 255, (count, 6, 8), np.uint8)


@hf.operator(halo=1)
def seam(clip):
    out = clip[1:-1].copy()
    out[-1] ^= 1
    return out


@hf.operator
def grouped(clip):
    return clip - clip.min()


@hf.operator(dependency="sequential")
def counting(clip, state):
    seen = state.get("seen", 0)
    steps = np.arange(seen, seen + len(clip), dtype=np.uint8)
    return clip ^ steps[:, None, None], {"seen": seen + len(clip)}


@hf.operator(dependency="sequential")
def calls(clip, state):
    """Counts its calls, of which there are as many as there are hyperframes."""
    number = state.get("calls", 0)
    return clip ^ np.uint8(number), {"calls": number + 1}


@pytest.mark.requirement("A72")
@pytest.mark.parametrize("size", [1, 7, 16, "auto"])
def test_operators_that_keep_their_word_pass(size):
    found = check(Pipeline.of(frames(), ["temporal_mean:radius=2", "gaussian:sigma=1"], size=size))
    assert found.equal
    assert not found.seams
    assert (found.frames, found.results, found.complete) == (60, 60, True)
    assert found.hyperframes > 1
    assert found.text() == (
        f"packed equals whole, bit for bit, on all 60 frames in {found.hyperframes} hyperframes of {found.size}"
    )


@pytest.mark.requirement("A72")
def test_differences_at_the_borders_are_called_seams():
    found = check(Pipeline.of(frames(), seam, size=16))
    assert not found.equal
    assert found.seams
    assert [d.index for d in found.differences] == [15, 31, 47]
    assert {d.border_distance for d in found.differences} == {0}
    assert found.max_difference == 1
    assert (
        "in 3 of 60 results on all 60 frames in 4 hyperframes of 16, at the borders of hyperframes only" in found.text()
    )
    assert found.advice().startswith("An operator reads further than its declared halo")


def test_differences_everywhere_are_not_called_seams():
    found = check(Pipeline.of(frames(), grouped, size=5))
    assert not found.equal
    assert not found.seams
    assert "not only at the borders" in found.text()
    assert found.advice().startswith("A result depends on what else is in its hyperframe")


def test_sequential_operators_are_checked_too():
    assert check(Pipeline.of(frames(), counting, size=7)).equal
    wrong = check(Pipeline.of(frames(), calls, size=20))
    assert [wrong.differences[0].index, wrong.num_different] == [20, 40]


def test_records_are_compared_row_by_row():
    found = check(Pipeline.of(frames(), "measure", size=7))
    assert found.equal
    assert found.results == 60


def test_every_output_is_compared(tmp_path):
    pipeline = Pipeline.of(
        frames(),
        ["temporal_mean:radius=1", seam],
        to={"temporal_mean": tmp_path / "mean.npy", "seam": tmp_path / "seam.npy"},
        size=10,
    )
    found = check(pipeline)
    assert found.results == 120
    assert {d.output for d in found.differences} == {"seam"}
    assert list(tmp_path.iterdir()) == []


def test_sinks_decide_the_format_that_is_compared(tmp_path):
    rgb = np.random.default_rng(2).integers(0, 255, (20, 16, 16, 3), np.uint8)
    found = check(Pipeline.of(rgb, "temporal_mean:radius=1", to=tmp_path / "out.mp4", size=4))
    assert found.equal
    assert found.results == 20


def test_not_a_number_equals_itself_and_a_changed_sign_of_zero_does_not():
    values = np.zeros((12, 4), np.float32)
    values[3] = np.nan
    assert check(Pipeline.of(values, "temporal_gaussian:sigma=1", size=4)).equal

    @hf.operator
    def signed(clip):
        return np.where(np.arange(len(clip))[:, None] == 0, np.float32(-0.0), clip)

    found = check(Pipeline.of(np.zeros((8, 4), np.float32), signed, size=4))
    assert [d.index for d in found.differences] == [4]
    assert found.max_difference == 0


def test_only_as_many_frames_as_asked_for_are_compared():
    found = check(Pipeline.of(frames(), "temporal_mean:radius=2", size=4), max_frames=18)
    assert (found.frames, found.complete) == (18, False)
    assert found.text().startswith("packed equals whole, bit for bit, on the first 18 frames in 5 hyperframes of 4")


def test_only_as_many_frames_as_fit_in_memory_are_compared():
    rows = np.zeros((4_000, 1_000), np.float32)
    found = check(Pipeline.of(rows, "temporal_mean:radius=1", size=10, max_memory=2_000_000))
    assert found.equal
    assert 10 < found.frames < 400
    assert not found.complete


def test_memory_for_not_even_one_frame_is_refused():
    rows = np.zeros((40, 100_000), np.float32)
    with pytest.raises(PipelineError, match="need") as caught:
        check(Pipeline.of(rows, "temporal_mean:radius=1", size=1, max_memory=100_000))
    assert "--max-memory" in caught.value.hint


def test_a_stream_shorter_than_a_hyperframe_is_cut_so_that_there_is_something_to_compare():
    found = check(Pipeline.of(frames(10), "temporal_mean:radius=1", size=64))
    assert (found.size, found.hyperframes) == (3, 4)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tiny_streams_can_be_checked(count):
    found = check(Pipeline.of(frames(count), "temporal_mean:radius=2"))
    assert found.equal
    assert found.frames == count


def test_a_range_is_checked_where_it_lies():
    found = check(Pipeline.of(frames(), seam, size=10, range=(20, 50)))
    assert [d.index for d in found.differences] == [29, 39]


class OneShot(ArraySource):
    bounded = False


def test_a_source_that_can_be_read_only_once_is_refused():
    with pytest.raises(PipelineError, match=r"^the check reads its source twice: camera can be read only once$"):
        check(Pipeline.of(OneShot(frames(), name="camera"), seam))


class Unreliable(Source):
    """Shows other frames every time it is read."""

    def __init__(self):
        self.name, self.spec, self.num_frames, self.exact = "unreliable", FrameSpec.array((2, 2), np.uint8), 9, True
        self.reads = 0

    def read(self, start=0, stop=None):
        self.reads += 1
        for index in range(start, 9 if stop is None else min(9, stop)):
            yield Frame(np.full((2, 2), self.reads, np.uint8), index, index, self.spec)


def test_a_source_that_changes_between_reads_is_found_out():
    found = check(Pipeline.of(Unreliable(), [], size=2))
    assert found.num_different == 9


class Shrinking(Unreliable):
    """Ends one frame earlier every time it is read."""

    def __init__(self):
        super().__init__()
        self.num_frames, self.exact = None, False

    def times(self):
        return np.arange(9)

    def read(self, start=0, stop=None):
        yield from list(super().read(start, stop))[: 9 - self.reads]


def test_results_that_are_missing_are_differences_without_bound():
    found = check(Pipeline.of(Shrinking(), [], size=3))
    assert (found.differences[-1].index, found.differences[-1].max_difference) == (7, float("inf"))
    assert found.to_json()["differences"][-1]["max_difference"] is None


def test_the_json_is_json():
    told = json.loads(json.dumps(check(Pipeline.of(frames(), seam, size=16)).to_json()))
    assert told["equal"] is False
    assert told["seams"] is True
    assert told["differences"][0] == {"output": "seam", "index": 15, "max_difference": 1.0, "border_distance": 0}


def test_the_clip_type_is_what_memory_returns():
    assert isinstance(hf.run(frames(5), "temporal_mean:radius=1").value, Clip)
