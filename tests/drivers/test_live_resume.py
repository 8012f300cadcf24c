"""Journal, recording, replay and resume of real live runs."""

import contextlib
import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers.journal_reading import JournalReader
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.drivers.replay import rebuild, unfinished
from hyperframes.media.recording import Recorder, Recording
from hyperframes.operators import Contract, Operator, Output


class Keeping(Operator):
    """Keeps what was sealed: headers as instruments are told them, samples and masks as operators are given them."""

    name = "keeping"

    def __init__(self):
        self.headers, self.samples = {}, {}

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),), takes_mask=True)

    def apply(self, inputs, outputs, state, prepared):
        (hyperframe,) = inputs
        held = ([plane.copy() for plane in hyperframe.planes], hyperframe.mask.copy())
        self.samples[hyperframe.header.sequence] = held
        outputs[0].data[...] = hyperframe.core_data

    def observe(self, observation):
        if observation["kind"] == "sealed":
            self.headers[observation["hyperframe"]] = observation["header"]

    def assert_same(self, rebuilt):
        assert {one.life.sequence for one in rebuilt} == self.samples.keys() == self.headers.keys()
        for one in rebuilt:
            header, (planes, mask) = self.headers[one.life.sequence], self.samples[one.life.sequence]
            for field in dataclasses.fields(header):
                was, is_now = getattr(header, field.name), getattr(one.hyperframe.header, field.name)
                assert np.array_equal(was, is_now) if isinstance(was, np.ndarray) else was == is_now, field.name
            np.testing.assert_array_equal(one.hyperframe.mask, mask)
            for was, is_now in zip(planes, one.hyperframe.planes, strict=True):
                np.testing.assert_array_equal(was, is_now)


def pictures(count, seed=0, shape=(12, 16, 3)):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def rebuilt(folder):
    with JournalReader(folder / "live.journal") as reader:
        lives = reader.find().hyperframes
    return lives, list(rebuild(lives, Recording(folder / "rec")))


@contextlib.contextmanager
def recorded_run(folder, *instruments, **options):
    """Run live with a journal and a recording in `folder`."""
    recorder = Recorder(folder / "rec")
    with LiveJournal(folder / "live.journal") as journal:
        told = {"recorder": recorder, "first_sequence": journal.next_sequence, "instruments": (journal, *instruments)}
        with hf.LiveRuntime(**told, **options) as live:
            yield live
    recorder.close()


@pytest.mark.requirement("B91")
def test_a_run_that_was_recorded_comes_back_bit_for_bit(tmp_path):
    keeping, results = Keeping(), []
    packing = hf.Packing(size=4, timeout=5.0)
    options = {"packing": packing, "operator": keeping, "on_result": results.append, "when_full": "block"}
    with recorded_run(tmp_path, keeping, **options) as live:
        for number, frame in enumerate(pictures(18)):
            for name in ("cam0", "cam1"):
                live.feed(name, frame, frame_id=100 + number, timestamp=1000 + number / 30)
            if number == 9:
                live.event("cam0")
    lives, again = rebuilt(tmp_path)
    assert len(results) == 36
    keeping.assert_same(again)
    assert all(life.outcome == "delivered" for life in lives)
    assert "event" in {life.seal_reason for life in lives}


@pytest.mark.requirement("B94")
def test_spatial_hyperframes_come_back_too(tmp_path):
    keeping = Keeping()
    packing = hf.Packing(kind="spatial", timeout=5.0)
    began = time.time()  # clocks further off than a second are mapped to ours by arrival
    with recorded_run(tmp_path, keeping, packing=packing, operator=keeping, queue=16) as live:
        for name in ("a", "b", "c"):
            live.inlet(name)
        for number, frame in enumerate(pictures(6, seed=1)):
            for name in ("a", "b", "c"):
                if (name, number) != ("b", 3):
                    live.feed(name, frame + ord(name), frame_id=number, timestamp=began + number / 30)
    _, again = rebuilt(tmp_path)
    keeping.assert_same(again)
    assert [len(one.hyperframe) for one in again] == [3] * len(again)
    assert {one.hyperframe.mask.all() for one in again} == {True, False}


@pytest.mark.requirement("B79")
def test_operators_are_told_which_camera_is_missing(tmp_path):
    seen = []

    @hf.operator(takes_mask=True, output="rgb24")
    def masked(frames, mask):
        seen.append(mask.tolist())
        return frames

    began = time.time()  # clocks further off than a second are mapped to ours by arrival
    with hf.LiveRuntime(packing=hf.Packing(kind="spatial", timeout=0.2), operator=masked, queue=16) as live:
        for name in ("a", "b"):
            live.inlet(name)
        for number, frame in enumerate(pictures(4)):
            for name in ("a", "b"):
                if (name, number) != ("b", 2):
                    live.feed(name, frame, frame_id=number, timestamp=began + number / 30)
    assert [True, False] in seen
    assert [True, True] in seen


def test_numbers_go_on_in_the_next_run(tmp_path):
    for _ in range(2):
        with recorded_run(tmp_path, packing=hf.Packing(size=2)) as live:
            for number, frame in enumerate(pictures(4)):
                live.feed("cam0", frame, frame_id=number, timestamp=1000 + number / 30)
    with JournalReader(tmp_path / "live.journal") as reader:
        assert [life.sequence for life in reader.find().hyperframes] == [0, 1, 2, 3]
        assert [run.outcome for run in reader.runs()] == ["finished", "finished"]


_VICTIM = """
import sys, time, threading, numpy as np, hyperframes as hf
from pathlib import Path
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.media.recording import Recorder
folder = Path(sys.argv[1])
held = threading.Event()

@hf.operator
def slow(frames):
    if len(frames) == 4 and frames.any():
        print("working", flush=True)
        held.wait()  # for ever: the operator hangs
    return frames

live = hf.LiveRuntime(packing=hf.Packing(size=4, timeout=60.0), operator=slow, ttl=1000.0, queue=16,
                      instruments=(LiveJournal(folder / "live.journal"),), recorder=Recorder(folder / "rec")).start()
frames = np.random.default_rng(0).integers(1, 256, (40, 12, 16, 3), np.uint8)
for number, frame in enumerate(frames):
    live.feed("cam0", frame, frame_id=number, timestamp=1000 + number / 30)
time.sleep(1.0)
print("fed", flush=True)
time.sleep(1000)
"""


@pytest.mark.requirement("B91")
def test_what_was_sealed_for_operators_that_read_less_waits_for_those(tmp_path):
    with recorded_run(tmp_path, packing=hf.Packing(size=4), when_full="block", operator="gaussian") as live:
        for number, frame in enumerate(pictures(16)):
            live.feed("cam0", frame, frame_id=number, timestamp=1000 + number / 30)
    with contextlib.closing(sqlite3.connect(tmp_path / "live.journal")) as database:
        database.execute("UPDATE hyperframes SET outcome = ''")
        database.commit()

    def resumed(operator):
        left = unfinished(tmp_path / "live.journal", tmp_path / "rec")
        with recorded_run(tmp_path, resume=left, packing=hf.Packing(size=4), operator=operator) as live:
            pass
        return live

    longer = resumed("temporal_mean:radius=1")
    assert longer.stats()["captured"] == 0
    (warning,) = longer.warnings
    assert warning.startswith("4 hyperframes were not resumed: operators read more frames around their own")
    assert resumed("gaussian").stats()["delivered"] == 16
    assert longer.stats()["dropped"] == {}


@pytest.mark.requirement("B91")
def test_however_much_was_left_little_of_it_is_in_memory_at_once(tmp_path):
    with recorded_run(tmp_path, packing=hf.Packing(size=2), when_full="block") as live:
        for number, frame in enumerate(pictures(400)):
            live.feed("cam0", frame, frame_id=number, timestamp=1000 + number / 30)
    with contextlib.closing(sqlite3.connect(tmp_path / "live.journal")) as database:
        database.execute("UPDATE hyperframes SET outcome = ''")
        database.commit()
    alive, most = 0, 0

    def gone():
        nonlocal alive
        alive -= 1

    def watched(left):
        nonlocal alive, most
        for one in left:
            weakref.finalize(one.hyperframe.planes[0], gone)
            alive += 1
            most = max(most, alive)
            yield one

    left = watched(unfinished(tmp_path / "live.journal", tmp_path / "rec"))
    with recorded_run(tmp_path, resume=left, packing=hf.Packing(size=2), operator=lambda frame: frame) as live:
        pass
    assert live.stats()["delivered"] == 400
    assert most <= 8


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_what_was_sealed_when_a_run_was_killed_is_worked_on_by_the_next(tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _VICTIM, str(tmp_path)]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root / "src")})
    assert [victim.stdout.readline() for _ in range(2)] == [b"working\n", b"fed\n"]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    with JournalReader(tmp_path / "live.journal") as reader:
        left = [life.sequence for life in reader.unfinished()]
    assert left == list(range(10))
    keeping, results = Keeping(), []
    options = {"packing": hf.Packing(size=4), "operator": keeping, "on_result": results.append, "queue": 16}
    rebuilt_ones = unfinished(tmp_path / "live.journal", tmp_path / "rec")
    with recorded_run(tmp_path, resume=rebuilt_ones, **options) as live:
        live.feed("cam1", pictures(1)[0], frame_id=0, timestamp=2000.0)
    wanted = np.random.default_rng(0).integers(1, 256, (40, 12, 16, 3), np.uint8)
    old = [result for result in results if result.stream == "cam0"]
    assert [result.frame_id for result in old] == list(range(40))
    assert [result.sequence for result in old] == [number // 4 for number in range(40)]
    assert live.warnings == []
    with JournalReader(tmp_path / "live.journal") as reader:
        assert reader.unfinished() == []
        assert [life.sequence for life in reader.find("stream = cam1").hyperframes] == [10]
    stats = live.stats()
    assert stats["captured"] == stats["delivered"] == 41
    frames = np.concatenate([one.hyperframe.data for one in rebuilt(tmp_path)[1][:10]])
    np.testing.assert_array_equal(frames, wanted)


_RESTLESS = """
import os, sys, time, numpy as np, hyperframes as hf
from pathlib import Path
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.drivers.replay import unfinished
from hyperframes.media.recording import Recorder
folder, first = Path(sys.argv[1]), int(sys.argv[2])
told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

class Telling:
    def observe(self, observation):
        if observation["kind"] == "sealed":
            ids = ",".join(map(str, observation["frame_ids"].tolist()))
            os.write(told, f"sealed {observation['hyperframe']} {observation['streams'][0]} {ids}\\n".encode())

@hf.operator
def slow(frames):
    time.sleep(0.003)
    return frames

def deliver(result):
    os.write(told, f"delivered {result.sequence} {result.stream} {result.frame_id}\\n".encode())

left = unfinished(folder / "live.journal", folder / "rec") if first else []
journal = LiveJournal(folder / "live.journal")
live = hf.LiveRuntime(packing=hf.Packing(size=4, timeout=0.05), operator=slow, on_result=deliver, ttl=1000.0, queue=1000,
                      instruments=(journal, Telling()), recorder=Recorder(folder / "rec"), resume=left,
                      first_sequence=journal.next_sequence).start()
frames = np.random.default_rng(0).integers(1, 256, (16, 12, 16, 3), np.uint8)
for number in range(first, first + 100_000):
    for name in ("cam0", "cam1"):
        live.feed(name, frames[number % 16], frame_id=number, timestamp=1000 + number / 30)
    if number == first + 40:
        print("under way", flush=True)
    time.sleep(0.001)
"""


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_runs_killed_at_any_moment_lose_nothing_that_was_sealed(tmp_path):
    """Also not what was sealed after the last transaction of the journal: its frames are in the recording."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    unwritten = 0
    for kill, after_seconds in enumerate((0.0, 0.13, 0.31, 0.07)):
        command = [sys.executable, "-c", _RESTLESS, str(tmp_path), str(kill * 1_000_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as victim:
            assert victim.stdout.readline() == b"under way\n"
            time.sleep(after_seconds)  # a kill at another place between two transactions
            victim.send_signal(signal.SIGKILL)
        with contextlib.closing(sqlite3.connect(f"file:{tmp_path / 'live.journal'}?mode=ro", uri=True)) as db:
            written = {number for (number,) in db.execute("SELECT number FROM hyperframes")}
        sealed, _ = _told(tmp_path)
        unwritten += len(sealed.keys() - written)
        with JournalReader(tmp_path / "live.journal") as reader:
            assert sealed.keys() <= {life.sequence for life in reader.find().hyperframes}
    assert unwritten, "no kill came between a seal and its transaction: the test shows nothing"
    results = []
    rebuilt_ones = unfinished(tmp_path / "live.journal", tmp_path / "rec")
    with recorded_run(tmp_path, resume=rebuilt_ones, packing=hf.Packing(size=4), on_result=results.append):
        pass
    sealed, delivered = _told(tmp_path)
    delivered |= {(result.stream, result.frame_id) for result in results}
    wanted = {(stream, frame_id) for stream, ids in sealed.values() for frame_id in ids}
    assert len(wanted) > 4 * 2 * 40
    assert wanted <= delivered
    with JournalReader(tmp_path / "live.journal") as reader:
        assert reader.unfinished() == []
        numbers = [life.sequence for life in reader.find().hyperframes]
    assert numbers == sorted(set(numbers))


def _told(folder):
    """Return what killed runs told: frames of each sealed hyperframe, and the frames that were delivered."""
    sealed, delivered = {}, set()
    for line in (folder / "told").read_text().splitlines():
        kind, sequence, stream, ids = line.split()
        if kind == "sealed":
            sealed[int(sequence)] = stream, [int(number) for number in ids.split(",")]
        else:
            delivered.add((stream, int(ids)))
    return sealed, delivered


def test_the_command_line_resumes(tmp_path, capsys):
    """`live --resume` without a journal is wrong usage; with one that has nothing left it just runs."""
    from hyperframes.cli._app import app
    from hyperframes.cli._show import exit_code_of

    np.save(tmp_path / "in.npy", pictures(8))
    arguments = ["live", "--source", str(tmp_path / "in.npy"), "--pace", "flat", "--quiet", "--resume"]
    assert exit_code_of(app, arguments) == 2
    assert "--resume works on what a journal and a recording hold" in capsys.readouterr().err
    arguments += [
        "--journal",
        str(tmp_path / "live.journal"),
        "--record",
        str(tmp_path / "rec"),
        "--when-full",
        "block",
    ]
    for number in (1, 2):
        assert exit_code_of(app, arguments) == 0, capsys.readouterr().err
        with JournalReader(tmp_path / "live.journal") as reader:
            assert reader.unfinished() == []
            assert len(reader.runs()) == number
    assert exit_code_of(app, ["replay", str(tmp_path / "live.journal")]) == 0
    assert "hyperframes made again" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["temporal", "spatial"])
@pytest.mark.requirement("B91")
def test_the_command_line_resumes_what_was_left_of_the_same_cameras(tmp_path, capsys, kind):
    from hyperframes.cli._app import app
    from hyperframes.cli._show import exit_code_of

    packing = {"size": 4} if kind == "temporal" else {"kind": kind}
    with recorded_run(tmp_path, packing=hf.Packing(timeout=60.0, **packing), when_full="block") as live:
        for number, frame in enumerate(pictures(8)):
            live.feed("cam0", frame, frame_id=number, timestamp=time.time() + number / 30)
    with contextlib.closing(sqlite3.connect(tmp_path / "live.journal")) as db, db:  # as a kill would have left it
        db.execute("UPDATE hyperframes SET outcome = '', ended_ns = NULL WHERE sequence < 2")
    np.save(tmp_path / "in.npy", pictures(12, seed=1))
    arguments = ["live", "--source", f"cam0={tmp_path / 'in.npy'}", "--pace", "flat", "--quiet", "--resume", "--json"]
    arguments += ["--kind", kind, "--journal", str(tmp_path / "live.journal"), "--record", str(tmp_path / "rec")]
    assert exit_code_of(app, [*arguments, "--when-full", "block"]) == 0, capsys.readouterr().err
    stats = json.loads(capsys.readouterr().out)
    left = 8 if kind == "temporal" else 2
    assert stats["streams"]["cam0"]["captured"] == stats["captured"] == stats["delivered"] == left + 12
    with JournalReader(tmp_path / "live.journal") as reader:
        assert reader.unfinished() == []


def test_credentials_of_sources_never_appear(tmp_path, capfd):
    """Journal, recording, metrics, stats, warnings and everything printed, of a camera that cannot be reached."""
    from hyperframes.console import Console

    url = "rtsp://admin:hunter2@127.0.0.1:9/stream"
    told = []
    with Console("127.0.0.1:0") as console:

        class Watching:
            def observe(self, observation):
                told.append(str(observation))

        with recorded_run(tmp_path, console, Watching(), sources={"cam0": url}) as live:
            console.watch(live.stats)
            time.sleep(0.5)
            told += [console.text(), str(live.stats()), str(live.settings())]
    content = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    printed = "".join(capfd.readouterr())
    assert "***@127.0.0.1" in "".join(told)
    assert "hunter2" not in "".join(told) + printed
    assert b"hunter2" not in content
