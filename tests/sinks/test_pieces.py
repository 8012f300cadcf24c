"""Outputs put together from pieces are, byte for byte, those of one sink that got everything."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperframes.errors import FrameError, SinkError
from hyperframes.frames import Clip, Field, FrameSpec, Records, RecordSpec
from hyperframes.sinks import Target, open_sink
from hyperframes.sinks.video import VideoSink

GRAY = FrameSpec.picture(24, 32, "gray", rate=Fraction(25))
YUV = FrameSpec.picture(24, 32, "yuv420p", rate=Fraction(25))
ROWS = RecordSpec((Field("mean", np.dtype("f4")), Field("corner", np.dtype("u1"), (2,)), Field("word", np.dtype("U6"))))
SIZE = 5


def clip_of(spec, start, stop):
    planes = tuple(
        np.stack([np.random.default_rng((t, i)).integers(0, 256, shape, np.uint8) for t in range(start, stop)])
        for i, shape in enumerate(spec.shapes)
    )
    return Clip(planes, np.arange(start, stop) * 2 + (np.arange(start, stop) > 9), np.arange(start, stop), spec)


def rows_of(spec, start, stop):
    index = np.repeat(np.arange(start, stop), np.arange(start, stop) % 3)
    columns = {
        "mean": np.where(index % 4, index / 3, np.nan).astype("f4"),
        "corner": np.stack([index % 256, index % 7], axis=1).astype("u1"),
        "word": np.array([f"w,{i % 50}" for i in index], "U6"),
    }
    return Records(columns, index, index * 2, spec)


KINDS = {
    "out.npy": (GRAY, clip_of),
    "out.zarr": (GRAY, clip_of),
    "planes.zarr": (YUV, clip_of),
    "pictures": (GRAY, clip_of),
    "pictures/f%04d.png": (GRAY, clip_of),
    "out.y4m": (YUV, clip_of),
    "out.csv": (ROWS, rows_of),
    "out.jsonl": (ROWS, rows_of),
    "out.parquet": (ROWS, rows_of),
    "out.mp4": (YUV, clip_of),
    "out.mkv": (YUV, clip_of),
}


def sink_at(path):
    return VideoSink(path, part_frames=4, preset="ultrafast") if path.suffix in {".mp4", ".mkv"} else open_sink(path)


def target_of(spec, count):
    kind = "records" if isinstance(spec, RecordSpec) else "frames"
    return Target("out", kind, spec, count, fingerprint="f", size=SIZE)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write(sink, target, made, start, stop):
    sink.open(target)
    for at in range(start, stop, SIZE):
        sink.write(made(target.spec, at, min(at + SIZE, stop)))
    sink.close()


def gathered(folder, name, edges):
    """Write pieces, the last one first, and put them together."""
    spec, made = KINDS[name]
    target, sink = target_of(spec, edges[-1]), sink_at(folder / name)
    pieces = []
    for number, (start, stop) in reversed(list(enumerate(itertools.pairwise(edges)))):
        place = folder / f"piece-{number}" / (folder / name).name.replace("%04d.png", "")
        place.parent.mkdir()
        write(sink.piece(place, start), dataclasses.replace(target, num_frames=stop - start), made, start, stop)
        pieces.insert(0, place)
    assert sink.gather(target, pieces) == str(folder / name)
    return pieces


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=5)
@given(cuts=st.lists(st.integers(0, 8), max_size=4), rest=st.integers(1, 12))
def test_pieces_put_together_are_one_output(name, cuts, rest, tmp_path_factory):
    spec, made = KINDS[name]
    whole, parts = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("parts")
    results = sink_at(whole / name).piece_results(target_of(spec, None))
    edges = np.cumsum([0, *(cut * results for cut in cuts), rest]).tolist()
    write(sink_at(whole / name), target_of(spec, edges[-1]), made, 0, edges[-1])
    gathered(parts, name, edges)
    found = {path: data for path, data in contents(parts).items() if not path.startswith("piece-")}
    assert found == contents(whole)


def test_a_part_that_is_not_whole_is_found(tmp_path):
    edges = [0, 8, 16, 20]
    for damage in ("cut", "gone"):
        folder = tmp_path / damage
        folder.mkdir()
        pieces = gathered(folder, "out.mp4", edges)
        (folder / "out.mp4").unlink()
        part = sorted((pieces[1].with_name(".out.mp4.parts")).glob("*.mkv"))[1]
        part.write_bytes(part.read_bytes()[:-1])
        if damage == "gone":
            for path in part.parent.glob("*"):
                path.unlink()
        with pytest.raises(SinkError, match=r"the parts in .* are not whole") as caught:
            sink_at(folder / "out.mp4").gather(target_of(YUV, 20), pieces)
        assert caught.value.hint == "Run it again."
        assert not (folder / "out.mp4").exists()


def test_pieces_in_the_wrong_order_are_found(tmp_path):
    pieces = gathered(tmp_path, "out.mp4", [0, 8, 16])
    with pytest.raises(SinkError, match="are not whole"):
        sink_at(tmp_path / "out.mp4").gather(target_of(YUV, 16), pieces[::-1])


def test_times_that_fall_from_one_piece_to_the_next_are_refused(tmp_path):
    sink, target = sink_at(tmp_path / "out.mp4"), target_of(YUV, 8)
    pieces = []
    for start in (0, 4):
        place = tmp_path / str(start) / "out.mp4"
        place.parent.mkdir()
        write(sink.piece(place, start), target, lambda spec, a, b: clip_of(spec, 0, b - a), start, start + 4)
        pieces.append(place)
    with pytest.raises(FrameError, match="the times of a video's frames must rise: got 0 after 6 at frame 4"):
        sink.gather(target, pieces)


def test_sinks_without_pieces_say_so(tmp_path):
    sink = open_sink(None)
    assert sink.piece_results(target_of(GRAY, 1)) is None
    with pytest.raises(SinkError, match="cannot be written in pieces"):
        sink.piece(tmp_path, 0)
    with pytest.raises(SinkError, match="cannot be written in pieces"):
        sink.gather(target_of(GRAY, 1), [])
