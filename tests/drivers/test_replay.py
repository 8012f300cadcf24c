"""Hyperframes made again from journal and recording equal those that were sealed, bit for bit."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drivers.live_observations import NOON, SECOND, sealed

from hyperframes.drivers.journal_reading import JournalReader
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.drivers.replay import digest, paced, rebuild
from hyperframes.frames import FrameSpec
from hyperframes.media.recording import Recorder, Recording
from hyperframes.packing import LIVE_TIME_BASE, Header, Hyperframe

PERIOD = SECOND // 30


def spec_of(shape=(6, 8, 3), dtype="u1"):
    return FrameSpec.array(shape, dtype, time_base=LIVE_TIME_BASE)


def stream_of(spec, count, seed=0, first_id=0, capture=True):
    """Return (planes, frame_id, capture_ns, arrival_ns) of each frame of a camera."""
    random = np.random.default_rng(seed)
    shape = spec.shapes[0]
    return [
        (
            (random.integers(0, 255, shape).astype(spec.dtype),),
            first_id + i,
            NOON + i * PERIOD if capture else None,
            NOON + i * PERIOD + 5_000_000,
        )
        for i in range(count)
    ]


def temporal(sequence, frames, core, read, spec, stream="cam0", **fields):
    held = frames[slice(*read)]
    planes = (np.stack([planes[0] for planes, *_ in held]),)
    ids = np.array([frame[1] for frame in held], np.int64)
    pts = np.array([frame[3] if frame[2] is None else frame[2] for frame in held], np.int64)
    clock = "arrival" if held[0][2] is None else "capture"
    header = Header(
        sequence, f"run/{stream}/0{core}", (stream,), core, read, 0, 0, ids, pts, LIVE_TIME_BASE,
        np.zeros(len(ids), np.int64), "temporal", clock, seal_reason="full", **fields,
    )  # fmt: skip
    inside = slice(core[0] - read[0], core[1] - read[0])
    return Hyperframe(header, planes, inside, np.ones(len(ids), bool), spec), frames[read[1] - 1][3]


def told(hyperframe, sealed_ns):
    header, core = hyperframe.header, hyperframe.core
    width = len(header.streams)
    fields = {
        "id": header.id,
        "frames": int(hyperframe.mask[core].sum()),
        "frame_ids": header.frame_ids[core],
        "pts": header.pts[core],
        "clocks": (header.clock,) * width,
        "gaps": header.gaps,
        "seal_reason": header.seal_reason,
        "header": header,
    }
    kind = "temporal" if header.kind == "temporal" else "spatial"
    return sealed(header.sequence, streams=header.streams, at=sealed_ns, kind=kind, **fields) | {
        "hyperframe_kind": header.kind
    }


def recorded(folder, streams, spec):
    recorder = Recorder(folder)
    for name, frames in streams.items():
        stream = recorder.stream(name)
        for planes, frame_id, capture_ns, arrival_ns in frames:
            stream.pushed(planes, spec, frame_id, capture_ns, arrival_ns)
    recorder.close()
    return Recording(folder)


def again(folder, hyperframes, recording):
    """Return what is rebuilt after `hyperframes`, each with the time of its seal, went through a journal."""
    with LiveJournal(folder / "live.journal") as journal:
        for hyperframe, sealed_ns in hyperframes:
            journal.observe(told(hyperframe, sealed_ns))
    with JournalReader(folder / "live.journal") as reader:
        return list(rebuild(reader.find().hyperframes, recording))


def assert_same(rebuilt, wanted):
    assert rebuilt.missing == ()
    for field in dataclasses.fields(Header):
        one, other = (getattr(h.header, field.name) for h in (rebuilt.hyperframe, wanted))
        assert np.array_equal(one, other) if isinstance(other, np.ndarray) else one == other, field.name
    for one, other in zip(rebuilt.hyperframe.planes, wanted.planes, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
        assert not one.flags.writeable
    np.testing.assert_array_equal(rebuilt.hyperframe.mask, wanted.mask)
    assert rebuilt.hyperframe.core == wanted.core
    assert rebuilt.hyperframe.spec.same_arrays(wanted.spec)
    assert digest(rebuilt.hyperframe) == digest(wanted)


@pytest.mark.requirement("B91")
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_temporal_hyperframes_with_halo_come_back_as_they_were(tmp_path_factory, sizes, before, after, capture):
    folder = tmp_path_factory.mktemp("replay")
    spec, count = spec_of(), sum(sizes) + after
    frames = stream_of(spec, count, capture=capture)
    made, start = [], 0
    for sequence, size in enumerate(sizes):
        core = (start, start + size)
        read = (max(0, start - before), min(count, core[1] + after))
        made.append(temporal(sequence, frames, core, read, spec))
        start += size
    rebuilt = again(folder, made, recorded(folder / "rec", {"cam0": frames}, spec))
    assert len(rebuilt) == len(made)
    for one, (wanted, _) in zip(rebuilt, made, strict=True):
        assert_same(one, wanted)


@pytest.mark.requirement("B94")
def test_a_spatial_hyperframe_comes_back_with_its_missing_camera(tmp_path):
    spec, names = spec_of((4, 6)), ("a", "b", "c")
    streams = {name: stream_of(spec, 3, seed) for seed, name in enumerate(names)}
    made = []
    for instant in range(3):
        there = np.array([True, instant != 1, True])
        planes = (np.stack([streams[name][instant][0][0] for name in names]),)
        planes[0][~there] = 0
        ids = np.where(there, instant, -1)
        pts = np.where(there, streams["a"][instant][2], -1)
        header = Header(
            instant, f"run/instants{instant}", names, (0, 3), (0, 3), 0, 0, ids, pts, LIVE_TIME_BASE,
            kind="spatial", clock="capture", seal_reason="watermark",
        )  # fmt: skip
        made.append((Hyperframe(header, planes, slice(0, 3), there, spec), streams["a"][instant][3]))
    rebuilt = again(tmp_path, made, recorded(tmp_path / "rec", streams, spec))
    for one, (wanted, _) in zip(rebuilt, made, strict=True):
        assert_same(one, wanted)


def test_ids_that_began_anew_are_told_apart_by_time(tmp_path):
    spec = spec_of((4, 6), "f4")
    first = stream_of(spec, 4)
    second = [
        (planes, i, at + 10 * SECOND, arrival + 10 * SECOND) for planes, i, at, arrival in stream_of(spec, 4, seed=9)
    ]
    made = [temporal(0, first, (0, 4), (0, 4), spec), temporal(1, second, (0, 4), (0, 4), spec)]
    rebuilt = again(tmp_path, made, recorded(tmp_path / "rec", {"cam0": first + second}, spec))
    for one, (wanted, _) in zip(rebuilt, made, strict=True):
        assert_same(one, wanted)


def test_frames_that_were_not_recorded_are_named(tmp_path):
    spec = spec_of((4, 6))
    frames = stream_of(spec, 8)
    made = [temporal(0, frames, (0, 4), (0, 4), spec), temporal(1, frames, (4, 8), (4, 8), spec)]
    rebuilt = again(tmp_path, made, recorded(tmp_path / "rec", {"cam0": frames[:2] + frames[4:]}, spec))
    assert rebuilt[0].hyperframe is None
    assert rebuilt[0].missing == (("cam0", 2), ("cam0", 3))
    assert_same(rebuilt[1], made[1][0])


def test_the_end_of_a_stream_is_kept(tmp_path):
    spec = spec_of((4, 6))
    frames = stream_of(spec, 3)
    made = [temporal(0, frames, (0, 3), (0, 3), spec, end=True, stream_length=3)]
    (one,) = again(tmp_path, made, recorded(tmp_path / "rec", {"cam0": frames}, spec))
    assert_same(one, made[0][0])


@pytest.mark.parametrize(("speed", "wanted"), [(None, []), (1, [1.0, 1.0]), (4, [0.25, 0.25])])
def test_it_may_run_at_any_speed(tmp_path, speed, wanted):
    spec, waited, clock = spec_of((4, 6)), [], [0.0]
    frames = stream_of(spec, 90)
    made = [temporal(i, frames, (30 * i, 30 * i + 30), (30 * i, 30 * i + 30), spec) for i in range(3)]
    rebuilt = again(tmp_path, made, recorded(tmp_path / "rec", {"cam0": frames}, spec))

    def sleep(seconds):
        waited.append(seconds)
        clock[0] += seconds

    assert [one.life.sequence for one in paced(rebuilt, speed, sleep, lambda: clock[0])] == [0, 1, 2]
    np.testing.assert_allclose(waited, wanted)


def test_the_command_line_shows_the_same_digests(tmp_path, capsys):
    from hyperframes.cli._app import app
    from hyperframes.cli._show import exit_code_of

    spec = spec_of((4, 6))
    frames = stream_of(spec, 12)
    made = [temporal(i, frames, (4 * i, 4 * i + 4), (4 * i, 4 * i + 4), spec) for i in range(3)]
    again(tmp_path, made, recorded(tmp_path / "rec", {"cam0": frames}, spec))
    arguments = ["replay", str(tmp_path / "live.journal"), "--record", str(tmp_path / "rec")]
    assert exit_code_of(app, [*arguments, "--json", "--sequence", "1:3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["sha256"] for line in lines] == [digest(hyperframe) for hyperframe, _ in made[1:]]
    assert exit_code_of(app, arguments) == 0
    assert "3 of 3 hyperframes made again" in capsys.readouterr().out
    assert exit_code_of(app, [*arguments[:2]]) == 2
    assert "--record" in capsys.readouterr().err
    assert exit_code_of(app, [*arguments, "--sequence", "x"]) == 2
    assert "--sequence" in capsys.readouterr().err
