"""The comparison with others: what is made of measured rounds, how results are compared, how contestants are run."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

RIVALS = Path(__file__).resolve().parents[2] / "benchmarks" / "rivals"
CONTESTANTS = sorted((RIVALS / "contestants").glob("*.py"))
ENVS = sorted((RIVALS / "envs").glob("*.txt"))


def rounds(*seconds, other=0.0, done=1):
    """Return rounds of these times, half of them CPU time."""
    return [{"seconds": s, "cpu_seconds": s / 2, "done": done, "other_cores": other} for s in seconds]


# What is made of rounds


def test_a_figure_is_the_median_of_the_quiet_rounds(rivals):
    measured = [*rounds(10, 20, 30, done=10), *rounds(1000, other=1.5, done=10)]
    told = rivals("summary").figure(measured)
    assert (told.seconds, told.cpu_seconds, told.quiet, told.rounds) == (2.0, 1.0, 3, 4)
    assert told.per_second == 0.5


def test_with_too_few_quiet_rounds_all_count_and_are_told(rivals):
    measured = [*rounds(1, 2), *rounds(3, 4, 5, other=1.0)]
    told = rivals("summary").figure(measured)
    assert (told.seconds, told.quiet, told.rounds) == (3, 2, 5)


def test_a_ratio_is_formed_within_each_round(rivals):
    target = rivals("workloads").Target("ours", "theirs", 2)
    # The machine is twice as slow in the second round, for both; the ratio of medians would be 12 / 5.
    told = rivals("summary").ratio({"ours": rounds(4, 8, 5), "theirs": rounds(12, 24, 10)}, target)
    assert (told.wall, told.cpu, told.quiet, told.rounds) == (3, 3, 3, 3)
    assert told.judged() == 3


def test_targets_are_judged_by_cpu_time_on_a_busy_machine_where_that_can_tell_them(rivals):
    ratio = rivals("summary").Ratio
    assert ratio(wall=2.0, cpu=3.0, quiet=3, rounds=5).judged() == 2
    assert ratio(wall=2.0, cpu=3.0, quiet=2, rounds=5).judged() == 3
    assert ratio(wall=2.0, cpu=1.0, quiet=0, rounds=5).judged(by_cpu=False) == 2


def test_a_round_counts_for_a_ratio_only_when_it_was_quiet_for_both(rivals):
    ours = rounds(1, 1, 1, 1)
    theirs = [*rounds(2, 2, 2), *rounds(50, other=1.0)]
    told = rivals("summary").ratio({"ours": ours, "theirs": theirs}, rivals("workloads").Target("ours", "theirs", 2))
    assert (told.wall, told.quiet) == (2, 3)


def test_what_a_rival_spends_on_being_given_its_frames_is_taken_off(rivals):
    target = rivals("workloads").Target("ours", "theirs", 2, less="reading")
    measured = {"ours": rounds(1, 1, 1), "theirs": rounds(9, 9, 9), "reading": rounds(4, 4, 4)}
    assert rivals("summary").ratio(measured, target).wall == 5


@pytest.mark.parametrize("measured", [{"ours": rounds(1)}, {"ours": rounds(1), "theirs": [{"error": "no"}]}])
def test_a_rival_that_was_not_there_or_failed_has_no_ratio(rivals, measured):
    assert rivals("summary").ratio(measured, rivals("workloads").Target("ours", "theirs", 2)) is None


# How results are compared


def stored(rivals, *frames, positions=None):
    samples = dict(zip(positions or range(len(frames)), map(np.asarray, frames), strict=False))
    return rivals("agreement").Stored([bytes(np.asarray(frame)).hex() for frame in frames], samples)


def frame(value, count=100):
    return np.full(count, value, np.uint8)


def test_equal_results_agree_bit_for_bit(rivals):
    told = rivals("agreement").compare(stored(rivals, frame(1), frame(2)), stored(rivals, frame(1), frame(2)))
    assert (told.identical, told.num_frames, told.differing, told.largest, told.wrong) == (2, 2, 0, 0, 0)
    assert told.psnr is None


def test_how_far_results_are_off_is_told_by_share_largest_difference_and_psnr(rivals):
    other = frame(10)
    other[:25] = 12
    told = rivals("agreement").compare(stored(rivals, frame(10)), stored(rivals, other))
    assert (told.identical, told.differing, told.largest, told.wrong) == (0, 0.25, 2, 0)
    assert told.psnr == pytest.approx(10 * np.log10(255**2 / 1.0))


def test_differences_at_the_ends_only_are_told_apart(rivals):
    expected = [frame(v) for v in (1, 2, 3, 4, 5, 6)]
    ends = [frame(9), *expected[1:]]
    inside = [*expected[:3], frame(9), *expected[4:]]
    compare = rivals("agreement").compare
    assert compare(stored(rivals, *expected), stored(rivals, *ends)).ends
    assert not compare(stored(rivals, *expected), stored(rivals, *inside)).ends
    assert not compare(stored(rivals, *expected), stored(rivals, *expected)).ends


def test_another_picture_and_a_missing_one_are_wrong_and_another_conversion_is_not(rivals):
    expected = stored(rivals, frame(10), frame(20), frame(30))
    other = stored(rivals, frame(11), frame(24))
    told = rivals("agreement").compare(expected, other)
    assert (told.wrong, told.compared, told.num_frames, told.num_expected) == (2, 3, 2, 3)


def test_samples_that_are_no_number_are_left_out(rivals):
    told = rivals("agreement").compare(
        stored(rivals, np.array([1.0, 2.0])), stored(rivals, np.array([np.nan, 2.0 + 1e-9]))
    )
    assert told.largest == pytest.approx(1e-9, rel=1e-6)


def test_quality_at_equal_size_lies_on_the_line_between_measured_sizes(rivals):
    psnr_at = rivals("agreement").psnr_at
    points = [(100, 30.0), (400, 34.0), (1600, 36.0)]
    assert psnr_at(200, points) == pytest.approx(32)
    assert psnr_at(800, points) == pytest.approx(35)
    assert psnr_at(3200, points) == pytest.approx(37)
    with pytest.raises(ValueError, match="a curve needs at least 2 points: got 1"):
        psnr_at(200, points[:1])


# Environments and contestants


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.stem)
def test_an_environment_pins_every_package_and_names_its_python(rivals, path):
    text = path.read_text()
    assert rivals("environments").wanted_python(text) in {"3.11", "3.12"}
    assert [line for line in text.splitlines()[1:] if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)] == []


def test_an_environment_that_names_no_python_is_refused(rivals):
    with pytest.raises(ValueError, match=r"the first line names no Python: expected '# Python 3\.11"):
        rivals("environments").wanted_python("numpy==2.4.6\n")


def test_hyperframes_runs_in_this_environment_and_a_missing_python_is_said(rivals, tmp_path, monkeypatch):
    environments = rivals("environments")
    assert environments.python_of("hyperframes", tmp_path, {}) == sys.executable
    monkeypatch.setattr(environments, "ENVS", tmp_path)
    (tmp_path / "old.txt").write_text("# Python 2.9. Nobody has it.\n")
    with pytest.raises(environments.UnavailableError, match=r"no Python 2\.9 found: name one with --interpreter 2\.9="):
        environments.python_of("old", tmp_path / "made", {})


def test_an_environment_is_made_once(rivals, tmp_path, monkeypatch):
    environments = rivals("environments")
    commands = []
    monkeypatch.setattr(environments, "ENVS", tmp_path)
    own = "{}.{}".format(*sys.version_info)
    (tmp_path / "small.txt").write_text(f"# Python {own}. Nothing.\n")

    def run(command):
        commands.append(command)
        (tmp_path / "made" / "small").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "_run", run)
    first = environments.python_of("small", tmp_path / "made", {})
    assert environments.python_of("small", tmp_path / "made", {}) == first
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]


@pytest.mark.parametrize("path", CONTESTANTS, ids=lambda path: path.stem)
def test_a_contestant_is_one_file_with_the_function_contest_and_imports_rivals_inside(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions[0].name == "contest"
    assert [argument.arg for argument in functions[0].args.args] == ["workload", "inputs"]
    outside = [name for node in tree.body for name in imported(node)]
    assert set(outside) <= {"measure", *sys.stdlib_module_names}


def imported(node):
    if isinstance(node, ast.ImportFrom):
        return [node.module.partition(".")[0]]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_every_workload_names_contestants_that_are_there(rivals):
    workloads = rivals("workloads")
    files = {path.stem for path in CONTESTANTS}
    assert (
        {name for workload in workloads.WORKLOADS for name in workload.contestants} == files == set(workloads.PACKAGES)
    )
    assert {path.stem for path in ENVS} == files - {"hyperframes", "ffmpeg"}
    with pytest.raises(LookupError, match="no workload named 'tea'; known: memory_rgb, "):
        workloads.find("tea")


def test_sampled_positions_ascend_and_are_denser_in_the_event(rivals):
    wanted = rivals("tasks").non_uniform(600)
    assert (len(wanted), wanted[0], wanted == sorted(set(wanted))) == (128, 0, True)
    assert sum(240 <= position < 330 for position in wanted) == 60


# Running


FAKE = """
import sys
import time

from measure import Case


def contest(workload, inputs):
    if workload == "peak_memory":
        raise OSError("no such library")
    print("libraries print")
    return {
        "steady": Case(lambda: 5, lambda: [b"ab", b"cd", b"ef"], facts=lambda: {"bytes": 6}),
        "off": Case(lambda: 5, lambda: [b"ab", b"cd", b"ee"]),
        "broken": Case(lambda: 1 / 0),
        "compared only": Case(None, lambda: [b"ab"]),
    }
"""


@pytest.fixture
def fake(rivals, tmp_path):
    """Start a contestant that is not there to win."""
    path = tmp_path / "fake.py"
    path.write_text(FAKE)
    inputs = rivals("measure").Inputs("", 3, "", 3, {}, str(tmp_path))
    started = []

    def start(name="file_yuv"):
        runner = rivals("runner")
        started.append(runner.Process(path, sys.executable, rivals("workloads").find(name), inputs))
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_rounds_take_labels_in_turn_and_the_first_is_left_out(rivals, fake, monkeypatch):
    process, waited = fake(), []
    monkeypatch.setattr(rivals("machine"), "wait_until_quiet", lambda *how: waited.append(how))
    taken = rivals("runner").timed_rounds(dict.fromkeys(process.labels, process), 2, quiet=0.5)
    assert waited == [*[(0.5, 0.0)] * 3, *[(0.5, 2.0)] * 4]  # the one that is broken is asked once
    assert set(taken) == {"steady", "off", "broken"}
    assert [r["done"] for r in taken["steady"]] == [5, 5]
    assert all(r["seconds"] > 0 and r["cpu_seconds"] >= 0 and r["other_cores"] >= 0 for r in taken["steady"])
    assert taken["steady"][0]["facts"] == {"bytes": 6}
    assert taken["broken"] == [{"error": "ZeroDivisionError: division by zero"}]


def test_a_case_may_tell_which_part_of_its_time_counts(rivals):
    measure = rivals("measure")
    told = measure.run(measure.Case(lambda: 5, seconds=lambda: 2.0, facts=lambda: {"seconds_with_start": 3.0}))
    assert (told["seconds"], told["done"], told["facts"]) == (2.0, 5, {"seconds_with_start": 3.0})
    with pytest.raises(ValueError, match="only compared, not timed"):
        measure.run(measure.Case(None))


def test_results_are_compared_with_those_of_the_reference(rivals, fake, tmp_path):
    process = fake()
    workload = rivals("workloads").Workload("file_yuv", "", (), reference="steady", keep="all")
    told = rivals("runner").compared(workload, dict.fromkeys(process.labels, process), tmp_path, 3)
    assert told["steady"] == {"num_frames": 3, "reference": True, "facts": {"bytes": 6}}
    assert (told["off"]["identical"], told["off"]["largest"]) == (2, 1.0)
    assert told["compared only"]["wrong"] == 2
    assert "broken" not in told


def test_a_contestant_that_cannot_start_or_has_ended_says_so(rivals, fake):
    process = fake("peak_memory")
    assert (process.labels, process.error) == ({}, "OSError: no such library")
    assert "error" in process.ask(do="run", label="steady")


def test_a_contestant_that_hangs_is_ended(rivals, fake, monkeypatch):
    process = fake()
    monkeypatch.setattr(process, "_patience", 0.0)
    assert process.ask(do="run", label="steady") == {"error": "no answer in 0 s"}


def test_memory_of_children_is_counted(rivals, fake):
    machine, process = rivals("machine"), fake()
    found = machine.tree(process.pid)
    assert found[0] == process.pid
    assert machine.proportional_bytes(found) > 1 << 20
    watch = machine.MemoryWatch(process.pid, every_seconds=0.001)
    watch.start()
    process.ask(do="run", label="steady")
    assert watch.stop() > 1 << 20


@pytest.mark.parametrize(
    ("keep", "dtype", "expected"),
    [("some", "u1", 16), ("every fifth", "u1", 20), ("all", "u1", None), ("some", "f8", None)],
)
def test_samples_are_kept_of_both_ends_and_the_middle(rivals, keep, dtype, expected):
    workload = rivals("workloads").Workload("w", "", (), keep=keep, dtype=dtype)
    found = rivals("runner").kept_positions(workload, 100)
    assert expected is None or len(found) == expected
    if expected == 16:
        assert {0, 1, 50, 98, 99} <= set(found)
    assert expected is not None or found is None


# Our own cases, on small frames


@pytest.fixture
def small(rivals, tmp_path):
    """Inputs of a few small frames in memory."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "rgb.npy", random.integers(0, 256, (7, 6, 8, 3), np.uint8))
    np.save(tmp_path / "yuv.npy", random.integers(0, 256, (7, 9, 8), np.uint8))
    return rivals("measure").Inputs("", 7, str(tmp_path), 7, {}, str(tmp_path))


def results(case):
    return [bytes(memoryview(np.ascontiguousarray(frame)).cast("B")) for frame in case.frames()]


@pytest.mark.slow
def test_our_mean_is_the_mean_and_the_copy_copies(rivals, small):
    cases = rivals("measure").load(str(RIVALS / "contestants" / "hyperframes.py"))("memory_rgb", small)
    frames = np.load(Path(small.memory) / "rgb.npy").astype(int)
    padded = np.concatenate([frames[:1], frames[:1], frames, frames[-1:], frames[-1:]])
    expected = [((2 * padded[t : t + 5].sum(axis=0) + 5) // 10).astype(np.uint8).tobytes() for t in range(7)]
    assert results(cases["hyperframes"]) == results(cases["hyperframes, kept"]) == expected
    assert [case.run() for case in cases.values()] == [7, 7, 7, 7]


@pytest.mark.slow
def test_our_chain_is_the_same_fused_and_one_after_another(rivals, small):
    cases = rivals("measure").load(str(RIVALS / "contestants" / "hyperframes.py"))("chain", small)
    first, *others = (results(case) for case in cases.values())
    assert len(first) == 7
    assert others == [first] * 3
    assert cases["three kernels, arrays reused"].run() == 7


def test_our_arrays_are_read_back_as_they_were(rivals, small):
    cases = rivals("measure").load(str(RIVALS / "contestants" / "hyperframes.py"))("arrays_out", small)
    expected = [frame.tobytes() for frame in np.load(Path(small.memory) / "rgb.npy")]
    for label, case in cases.items():
        if case.frames is not None:
            case.before()
            assert results(case) == expected
        case.before()
        assert case.run() == 7, label
    assert (Path(small.scratch) / "raw").stat().st_size >= sum(map(len, expected))
