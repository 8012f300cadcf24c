"""`hyperframes run`: what it writes, what it prints, and what it says when something is wrong."""

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import av
import numpy as np
import pytest

import hyperframes as hf

from .conftest import pictures

RUN_KEYS = {
    "frames_in", "frames_out", "filtered", "hyperframes", "size", "halo", "workers", "executor", "seconds",
    "frames_per_second", "peak_memory_bytes", "scheduler_share", "stages", "conversions", "retries", "failed", "output",
    "sizes",
}  # fmt: skip


def decoded(path):
    with av.open(path) as container:
        return [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]


def whole(radius):
    """Slow NumPy over the whole sequence: the mean of each frame and `radius` on each side, edges repeated."""
    frames = np.pad(pictures().astype(int), ((radius, radius), (0, 0), (0, 0)), mode="edge")
    n = 2 * radius + 1
    total = sum(frames[k : k + 40] for k in range(n))
    return ((2 * total + n) // (2 * n)).astype(np.uint8)


# What it does ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 32, 1000])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_is_that_of_the_whole_sequence(call, array, size, workers):
    outcome = call(
        "run", array, "out.npy", "--operator", "temporal_mean:radius=2", "--size", size, "--workers", workers
    )
    assert outcome.code == 0, outcome.err
    assert np.array_equal(np.load("out.npy"), whole(2))


@pytest.mark.slow  # processes take a moment to start
def test_workers_may_be_processes(call, array):
    outcome = call("run", array, "out.npy", "-p", "temporal_mean:radius=2", "--executor", "processes", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["executor"] == "processes"
    assert np.array_equal(np.load("out.npy"), whole(2))


def test_a_video_is_written_with_every_frame(call, clip):
    outcome = call("run", clip, "out.mp4", "-p", "temporal_mean:radius=1", "--quality", "0", "--codec", "libx264")
    assert outcome.code == 0, outcome.err
    assert len(decoded("out.mp4")) == 40
    assert outcome.out.startswith("out.mp4: 40 frames in ")


def test_json_alone_is_on_stdout_with_the_promised_keys(call, array):
    outcome = call("run", array, "out.npy", "--json", "--checksum")
    told = json.loads(outcome.out)
    assert RUN_KEYS | {"frames_sha256"} <= told.keys()
    assert told["frames_in"] == told["frames_out"] == 40
    assert told["output"] == "out.npy"
    assert told["halo"] == {"before": 0, "after": 0}
    assert outcome.err == ""


def test_the_checksum_does_not_depend_on_the_size(call, array):
    sums = {
        json.loads(
            call("run", array, "null:", "-p", "temporal_mean:radius=1", "--checksum", "--json", "--size", n).out
        )["frames_sha256"]
        for n in (1, 7, 64)
    }
    assert len(sums) == 1


def test_a_range_gives_that_slice_of_the_whole_run(call, array):
    assert call("run", array, "out.npy", "-p", "temporal_mean:radius=3", "--range", "10:25", "--size", "4").code == 0
    assert np.array_equal(np.load("out.npy"), whole(3)[10:25])


def test_what_was_left_out_is_said(call, array):
    outcome = call("run", array, "out.npy", "-p", "every:n=5")
    assert outcome.out.startswith("out.npy: 40 frames to 8 results in ")


def test_operators_form_a_chain_in_the_order_given(call, array):
    assert call("run", array, "a.npy", "-p", "every:n=2", "-p", "temporal_mean:radius=1").code == 0
    assert call("run", array, "b.npy", "-p", "temporal_mean:radius=1", "-p", "every:n=2").code == 0
    assert np.array_equal(np.load("b.npy"), whole(1)[::2])
    assert not np.array_equal(np.load("a.npy"), np.load("b.npy"))


def test_an_operator_of_ones_own_is_named_by_its_module(call, array, operators_module):
    assert call("run", array, "out.npy", "-p", "own_operators.mean3", "--check").code == 0
    assert np.array_equal(np.load("out.npy"), whole(1))


def test_several_sources_fill_a_folder_with_one_output_each(call, array, clip):
    outcome = call("run", array, clip, "out", "-p", "temporal_mean:radius=1", "--json")
    assert outcome.code == 0, outcome.err
    assert [run["output"] for run in json.loads(outcome.out)] == ["out/frames.npy", "out/clip.mp4"]
    assert len(decoded("out/clip.mp4")) == 40


def test_records_of_several_sources_become_lines(call, array, clip):
    assert call("run", array, clip, "out/", "-p", "measure").code == 0
    assert len(Path("out/clip.jsonl").read_text().splitlines()) == 40


def test_images_take_a_rate(call, array):
    assert call("run", array, "frames/%03d.png").code == 0
    outcome = call("run", "frames", "out.mp4", "--rate", "50")
    assert outcome.code == 0, outcome.err
    with av.open("out.mp4") as container:
        assert container.streams.video[0].average_rate == 50


def test_a_configuration_runs_and_the_command_line_wins(call, array):
    Path("job.toml").write_text(
        f'[sources]\nsource = "{array}"\n[[stages]]\noperator = "temporal_mean:radius=2"\n'
        '[sinks]\ntemporal_mean = "out.npy"\n[options]\nsize = 5\nworkers = 1\n'
    )
    told = json.loads(call("run", "--config", "job.toml", "--size", "9", "--json").out)
    assert (told["size"], told["workers"]) == (9, 1)
    assert np.array_equal(np.load("out.npy"), whole(2))


def test_reports_are_written_as_html_and_json(call, array):
    outcome = call("run", array, "out.npy", "-p", "temporal_mean:radius=2", "--report", "r.json", "--size", "8",
                   "--workers", "1")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "  report r.json" in outcome.out
    told = json.loads(Path("r.json").read_text())
    assert [stage["operator"] for stage in told["what"]["stages"]] == ["temporal_mean"]
    assert told["what"]["sinks"] == [{"name": "out.npy", "takes": "temporal_mean"}]
    assert len(told["timeline"]["tasks"]) == 5
    assert call("run", array, "out.npy", "--report", "r.html").code == 0
    assert Path("r.html").read_text().startswith("<!doctype html>")


def test_frames_on_stdout_leave_the_words_to_stderr(spawn, array):
    out, err = spawn("run", array, "-", text=False).communicate()
    assert out.startswith(b"YUV4MPEG2 W64 H48")
    assert b"40 frames in " in err


def test_a_reader_that_has_enough_ends_the_command_quietly(spawn):
    with spawn("operators", "--json") as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


# The check ------------------------------------------------------------------------------------------------------------


def test_the_check_says_what_it_compared(call, array):
    outcome = call(
        "run", array, "out.npy", "-p", "temporal_mean:radius=2", "-p", "background", "--check", "--size", "7"
    )
    assert outcome.code == 0, outcome.err
    assert "  equals the whole sequence bit for bit: 40 frames compared" in outcome.out


@pytest.mark.requirement("A72")
def test_a_seam_is_found_before_anything_is_written(call, array, operators_module, tmp_path):
    outcome = call("run", array, "out.npy", "-p", "own_operators.seam", "--check", "--size", "10")
    assert outcome.code == 1
    assert outcome.error == (
        "packed differs from whole in 3 of 40 results on all 40 frames in 4 hyperframes of 10, at the borders of "
        f"hyperframes only: first in 'seam' at 10, by at most {outcome.error.rpartition(' ')[2]}"
    )
    assert outcome.hint == "An operator reads further than its declared halo: declare more, and see 'hyperframes plan'."
    assert not (tmp_path / "out.npy").exists()


# What is wrong --------------------------------------------------------------------------------------------------------

WRONG = {
    "no such source": (["missing.npy", "out.npy"], 1, "no such file: missing.npy", "similar name"),
    "nearly a source": (["frame.npy", "out.npy"], 1, "no such file: frame.npy", "Did you mean 'frames.npy'"),
    "a folder without frames": (["empty_folder", "out.npy"], 1, "no images in empty_folder", "folder"),
    "an empty video": (["empty.mp4", "out.mp4"], 1, "'empty.mp4' is empty: 0 bytes", "again"),
    "text called mp4": (["text.mp4", "out.mp4"], 1, "'text.mp4' is not a video", "what the file really is"),
    "a nearly right operator": (
        ["frames.npy", "out.npy", "-p", "temporal_meen"], 2, "no operator named 'temporal_meen'",
        "Did you mean 'temporal_mean'?",
    ),
    "a parameter of another type": (
        ["frames.npy", "out.npy", "-p", "temporal_mean:radius=two"], 2, "expected int for radius, got 'two'",
        "See its parameters: hyperframes operators temporal_mean",
    ),
    "a nearly right parameter": (
        ["frames.npy", "out.npy", "-p", "temporal_mean:radios=2"], 2, "has no parameter 'radios'",
        "Did you mean 'radius'?",
    ),
    "size 0": (["frames.npy", "out.npy", "--size", "0"], 2, "at least 1, got 0", "Use --size auto"),
    "a size that is no number": (["frames.npy", "out.npy", "--size", "many"], 2, "--size: expected a number of at most nine digits or 'auto'", "16"),
    "no workers": (["frames.npy", "out.npy", "--workers", "0"], 2, "at least 1, got 0", "Use --workers auto"),
    "a halo larger than allowed": (
        ["frames.npy", "out.npy", "-p", "temporal_mean:radius=100000"], 2, "radius is a whole number: expected 0 to",
        "temporal_mean:radius=2",
    ),
    "a halo that memory cannot hold": (
        ["frames.npy", "out.mp4", "-p", "resize:width=640", "-p", "temporal_mean:radius=40", "--max-memory", "5MB"], 2,
        "expected at most 5 MB", "--max-memory",
    ),
    "a boundary for which there is no mask": (
        ["frames.npy", "out.npy", "-p", "temporal_mean:radius=2", "--boundary", "none"], 2, "it takes no mask",
        "Use --boundary replicate",
    ),
    "an unknown boundary": (["frames.npy", "out.npy", "--boundary", "mirror"], 2, "unknown boundary 'mirror'", "reflect"),
    "no folder for the sink": (["frames.npy", "nowhere/out.npy"], 2, "cannot write nowhere/out.npy: 'nowhere' does not exist", "mkdir -p nowhere"),
    "a folder where the sink should be": (["frames.npy", "taken.npy"], 2, "cannot write taken.npy: a folder stands there", "another name"),
    "a sink that cannot be written": (["frames.npy", "/proc/out.npy"], 2, "cannot write /proc/out.npy", "may be written to"),
    "an unknown suffix": (["frames.npy", "out.mp5"], 2, "no sink writes 'out.mp5'", "Did you mean 'out.mp4'?"),
    "a suffix that is near none": (["frames.npy", "out.gif"], 2, "no sink writes 'out.gif'", "Take one of these suffixes."),
    "a codec for another container": (["frames.npy", "out.webm", "--codec", "libx264"], 2, ".webm files do not hold libx264", ".mkv, .mov, .mp4"),
    "rows for a video": (["rows.csv", "out.mp4"], 2, "a video takes pictures, got array (2,)", "Write rows to .csv, .parquet or .npy."),
    "flow for a video": (
        ["frames.npy", "out.mp4", "-p", "optical_flow"], 2, "a video takes pictures, got array (48, 64, 2) float32",
        "Write .npy, which holds arrays of any shape.",
    ),
    "gradients for a video": (
        ["frames.npy", "out.mp4", "-p", "sobel:depth=float32"], 2, "a video takes pictures, got ", "--operator convert:dtype=uint8",
    ),
    "a sink in a configuration that is not TOML": (["--config", "bad.toml"], 2, "bad.toml: ", "docs/formats.md has an example"),
    "a nearly right key of a configuration": (["--config", "near.toml"], 2, "near.toml: ", "Did you mean 'size'?"),
    "no sink": (["frames.npy"], 2, "run needs a sink after the source: got frames.npy", "For example: hyperframes run"),
    "nothing": ([], 2, "run needs a source and a sink: got nothing", "For example: hyperframes run"),
    "an unknown executor": (
        ["frames.npy", "out.npy", "--executor", "rays"], 2, "expected one of threads, processes, ray, got 'rays'", "run --help",
    ),
    "a cluster for threads": (
        ["frames.npy", "out.npy", "--cluster", "auto"], 2, "only the ray executor uses one, got 'auto' for 'threads'",
        "Add --executor ray",
    ),
    "a cluster and outputs by size": (
        ["frames.npy", "out.npy", "--executor", "ray", "--on-size-change", "split"], 2, "the ray executor cannot split outputs",
        "Scale what changes",
    ),
    "a cluster and standard output": (
        ["frames.npy", "-", "--executor", "ray"], 2, "the ray executor writes where the work is done: expected files, got '-'",
        "a folder that all machines see",
    ),
    "loosening a dependency": (
        ["frames.npy", "out.npy", "--frame-dependency", "independent"], 2, "may only tighten what operators declare",
        "Leave it out",
    ),
    "an unknown policy": (["frames.npy", "out.npy", "--scheduling-policy", "lifo"], 2, "expected one of fifo, priority_by_index", "run --help"),
    "an unknown rule for errors": (["frames.npy", "out.npy", "--on-error", "shrug"], 2, "expected fail, continue or retry:N", "retry:2"),
    "a range without a colon": (["frames.npy", "out.npy", "--range", "7"], 2, "--range: expected START:STOP in frames, got '7'", "100:200"),
    "a range that runs backwards": (["frames.npy", "out.npy", "--range", "9:5"], 2, "with 0 <= START <= STOP", "frames 100 to 199"),
    "memory without a unit": (["frames.npy", "out.npy", "--max-memory", "lots"], 2, "--max-memory: expected a size such as 512MB or 2GiB", "2GiB"),
    "an unknown codec": (["frames.npy", "out.mp4", "--codec", "h265x"], 2, "video codec 'h265x' is not known", "'libx265'"),
    "a codec for an array": (["frames.npy", "out.npy", "--codec", "libx264"], 2, "--codec is for sinks that have a codec: out.npy has none", "out.mp4"),
    "a quality that is no number": (["frames.npy", "out.mp4", "--quality", "good"], 2, "--quality: expected a number, got 'good'", "--quality 20"),
    "a rate for a video": (["clip.mp4", "out.mp4", "--rate", "25"], 2, "--rate is for images and arrays: clip.mp4 has its own time", "Leave --rate out"),
    "a report of another kind": (["frames.npy", "out.npy", "--report", "r.pdf"], 2, "a report is .html or .json: got 'r.pdf'", "r.html"),
    "JSON and frames on one stream": (["frames.npy", "-", "--json"], 2, "frames and JSON cannot both go to standard output", "file"),
    "several sources and a file": (["frames.npy", "clip.mp4", "out.npy"], 2, "2 sources need a folder to write to", "out/"),
    "two outputs of one name": (["frames.npy", "./frames.npy", "out/"], 2, "two sources would both be written to out/frames.npy", "different names"),
    "a report for several sources": (["frames.npy", "clip.mp4", "out/", "--report", "r.html"], 2, "a report tells one run: got 2 sources", "one at a time"),
    "a configuration and a source": (["frames.npy", "--config", "job.toml"], 2, "stand in the file that --config names", "Leave them out"),
    "no such configuration": (["--config", "job.toml"], 2, "cannot read the configuration job.toml: No such file", "--config job.toml"),
    "a nearly right option": (["frames.npy", "out.npy", "--siez", "3"], 2, "no such option: --siez", "Did you mean '--size'?"),
    "a picture format that does not exist": (["frames.npy", "out.npy", "--pixel-format", "rgb25"], 2, "got 'rgb25'", "rgb24"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence_with_a_hint_and_nothing_is_written(case, call, array, clip, tmp_path):
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "taken.npy").mkdir()
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("these are words, not pictures\n" * 20)
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "bad.toml").write_text("[sources\n")
    (tmp_path / "near.toml").write_text('[sources]\nsource = "frames.npy"\n[options]\nsiez = 8\n')
    before = {path.name for path in tmp_path.iterdir()}
    arguments, code, said, hint = WRONG[case]
    outcome = call("run", *arguments)
    assert said in outcome.error
    assert hint in outcome.hint
    assert outcome.code == code
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert {path.name for path in tmp_path.iterdir()} - before <= {"out"}


def test_a_range_beyond_the_end_says_that_no_frame_was_delivered(call, clip):
    outcome = call("run", clip, "out.mp4", "--range", "500:")
    assert outcome.code == 1
    assert outcome.error == "cannot write out.mp4: a video needs a frame, and none was delivered"
    assert outcome.hint.startswith("Does --range begin before the stream ends")


def test_images_take_a_quality_that_is_a_whole_number(call, array):
    assert call("run", array, "small/%03d.jpg", "--quality", "20", "--range", ":2").code == 0
    assert call("run", array, "large/%03d.jpg", "--quality", "95", "--range", ":2").code == 0
    assert Path("small/000.jpg").stat().st_size < Path("large/000.jpg").stat().st_size
    outcome = call("run", array, "out/%03d.jpg", "--quality", "92.5")
    assert (outcome.code, outcome.error) == (2, "JPEG quality is a whole number from 0 to 100: got 92.5")


def test_rows_are_called_rows_and_a_hyperframe_is_no_longer_than_the_stream(call, tmp_path):
    (tmp_path / "rows.csv").write_text("t,a\n" + "".join(f"{t},{t * t}\n" for t in range(10)))
    outcome = call("run", "rows.csv", "out.csv", "-p", "temporal_mean:radius=1")
    assert outcome.out.startswith("out.csv: 10 rows in ")
    assert " rows/s\n  1 hyperframe of 10 rows, halo 1 + 1, " in outcome.out


def test_the_check_counts_results_where_they_are_not_as_many_as_frames(call, array):
    outcome = call("run", array, "out.npy", "-p", "every:n=3", "--check", "--size", "16")
    assert "  equals the whole sequence bit for bit: 14 results of 40 frames compared" in outcome.out


def test_the_package_runs_as_a_module(array, tmp_path):
    command = [sys.executable, "-m", "hyperframes", "run", array, "out.npy", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("out.npy: 40 frames in ")


def test_help_says_defaults_and_ranges_and_no_types_of_flags(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    said = " ".join(call("run", "--help").out.split())
    for part in (
        "[default: (auto)]",
        "[default: (fifo)]",
        "libx264 and libx265 0 to 51",
        "such as 100:200",
        "-p is short for",
    ):
        assert part in said
    for part in ("<bool>", ", as "):
        assert part not in said


def test_credentials_never_appear(call):
    outcome = call("run", "rtsp://admin:secret@127.0.0.1:1/stream", "out.mp4")
    assert outcome.code == 1
    assert "secret" not in outcome.err
    assert "rtsp://***@127.0.0.1:1/stream" in outcome.error


def test_an_operator_that_fails_ends_the_run_and_names_the_frames(call, operators_module, tmp_path):
    frames = pictures()
    frames[17, 0, 0] = 255
    np.save(tmp_path / "white.npy", frames)
    outcome = call("run", "white.npy", "out.npy", "-p", "own_operators.picky", "--size", "10")
    assert outcome.code == 1
    assert "stage 'picky' failed on frames 10 to 19" in outcome.error
    assert "ValueError: a white corner" in outcome.error
    assert "--range 10:20" in outcome.hint
    assert not list(tmp_path.glob("out.npy*"))


def test_a_run_that_continues_lists_what_failed_and_exits_with_1(call, operators_module, tmp_path):
    frames = pictures()
    frames[17, 0, 0] = 255
    np.save(tmp_path / "white.npy", frames)
    outcome = call(
        "run", "white.npy", "out.npy", "-p", "own_operators.picky", "--size", "10", "--on-error", "continue", "--json"
    )
    assert outcome.code == 1
    assert [failure["frames"] for failure in json.loads(outcome.out)["failed"]] == [[10, 20]]
    assert outcome.error.startswith("1 of 4 hyperframes failed, the first with frames 10 to 19: ")
    assert np.array_equal(np.load("out.npy")[20:], frames[20:])
    assert not np.load("out.npy")[10:20].any()


def test_debug_shows_the_traceback_and_keeps_the_exit_code(call, array):
    outcome = call("run", array, "out.npy", "--size", "0", "--debug")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.hint.startswith("Use --size auto")


def test_debug_is_off_again_in_the_next_command(call, array, monkeypatch):
    assert "Traceback" in call("run", array, "out.npy", "--size", "0", "--debug").err
    assert "Traceback" not in call("run", array, "out.npy", "--size", "0").err
    monkeypatch.setenv("HYPERFRAMES_DEBUG", "1")
    assert "Traceback" in call("run", array, "out.npy", "--size", "0").err


def test_a_bug_is_one_line_that_asks_for_a_report(call, array, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("nobody\nexpected this")

    monkeypatch.setattr("hyperframes.drivers.run", broken)
    outcome = call("run", array, "out.npy")
    assert outcome.code == 1
    assert outcome.error == "internal error: ZeroDivisionError: nobody"
    assert outcome.hint == "This is a bug in hyperframes: please report it with what --debug prints."


# Ends that are not the end --------------------------------------------------------------------------------------------


def wait_until_it_works(process, path):
    """Wait until the run has begun to write beside `path`."""
    for _ in range(600):
        if any(path.parent.glob(f".{path.name}*")):
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    pytest.fail("the run never began to write")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"),
    [("out.npy", signal.SIGINT), ("out.mp4", signal.SIGINT), ("out.npy", signal.SIGTERM), ("out.npy", signal.SIGHUP)],
)
def test_ctrl_c_and_its_like_leave_nothing_under_the_final_name(name, number, spawn, array, operators_module, tmp_path):
    process = spawn("run", array, name, "-p", "own_operators.slow", "--size", "2", "--workers", "1",
                    python_path=operators_module)  # fmt: skip
    wait_until_it_works(process, tmp_path / name)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    error, hint = err.splitlines()[-2:]
    assert error == "error: interrupted: the output was not finished"
    assert out == ""
    assert not (tmp_path / name).exists()
    if (tmp_path / f".{name}.journal").exists():
        assert hint == f"hint: What is whole was kept beside it: go on with --resume. The journal is .{name}.journal."
    else:
        assert hint == "hint: Nothing incomplete was left behind."
        assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


@pytest.mark.slow
def test_ctrl_c_keeps_the_parts_that_are_whole_and_says_where(spawn, operators_module, tmp_path):
    np.save(tmp_path / "long.npy", pictures(count=700))
    process = spawn("run", "long.npy", "out.mp4", "-p", "own_operators.slow", "--size", "5", "--workers", "2",
                    python_path=operators_module)  # fmt: skip
    for _ in range(600):
        if any((tmp_path / ".out.mp4.parts").glob("part-*.json")):
            break
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "What is whole was kept beside it: go on with --resume. The journal is .out.mp4.journal." in err
    assert not (tmp_path / "out.mp4").exists()
    assert any((tmp_path / ".out.mp4.parts").glob("part-*.json"))
    process = spawn("run", "long.npy", "out.mp4", "-p", "own_operators.slow", "--size", "5", "--workers", "2",
                    "--resume", "--json", python_path=operators_module)  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert (told["frames_in"], told["frames_out"], told["output"]) == (700, 700, "out.mp4")
    assert "warning: resumed at frame " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.npy", "modules", "out.mp4"]


@pytest.mark.parametrize("name", ["out.npy", "out.mp4"])
def test_a_full_disk_is_said_and_leaves_nothing(name, spawn, tmp_path):
    """A limit on the size of files stands in for the disk: the system refuses a write in the same way."""
    np.save(tmp_path / "noise.npy", np.random.default_rng(1).integers(0, 255, (600, 48, 64), np.uint8))
    limit = 300_000

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = spawn("run", "noise.npy", name, "--size", "4", "--quiet", preexec_fn=limited)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    first, second = err.splitlines()
    assert first.startswith(f"error: cannot write {name}: ")
    assert second.startswith("hint: ")
    assert [path.name for path in tmp_path.iterdir()] == ["noise.npy"]


@pytest.mark.slow
def test_an_output_that_another_run_is_writing_is_refused_and_stays_the_other_runs(
    spawn, call, array, operators_module, tmp_path
):
    other = spawn("run", array, "out.npy", "-p", "own_operators.slow", "--size", "2", "--workers", "1",
                  python_path=operators_module)  # fmt: skip
    wait_until_it_works(other, tmp_path / "out.npy")
    outcome = call("run", array, "out.npy", "-p", "temporal_mean")
    assert outcome.code != 0
    assert outcome.error == "cannot write out.npy: another run is writing it"
    _, err = other.communicate(timeout=60)
    assert other.returncode == 0, err
    assert len(np.load(tmp_path / "out.npy")) == 40


def test_a_file_called_like_the_output_with_part_behind_is_left_alone(call, array, tmp_path):
    (tmp_path / "out.npy.part").write_text("mine")
    (tmp_path / "out.npy.old").write_text("mine")
    assert call("run", array, "out.npy").code == 0
    assert (tmp_path / "out.npy.part").read_text() == (tmp_path / "out.npy.old").read_text() == "mine"


def test_a_closed_standard_output_is_no_error(array, tmp_path):
    command = f"{sys.executable} -c 'from hyperframes.cli import main; main()' run {array} out.npy >&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--size", ""), "--size needs a value: got nothing"),
        (("--dtype", ""), "--dtype needs a value: got nothing"),
        (("--workers", "9" * 5000), "--workers: expected a number of at most nine digits or 'auto', got '999"),
        (("--range", "0:" + "9" * 5000), "--range: expected START:STOP in frames, got "),
    ],
)
def test_values_that_are_none_are_said_to_be(call, array, arguments, sentence):
    outcome = call("run", array, "out.npy", *arguments)
    assert outcome.code == 2
    assert outcome.error.startswith(sentence)


def test_an_empty_codec_is_refused(call, array):
    assert call("run", array, "out.mp4", "--codec", "").error == "--codec needs a value: got nothing"


def test_several_sources_need_a_folder_and_null_is_none(call, array, tmp_path):
    outcome = call("run", array, array, "null:")
    assert outcome.code == 2
    assert outcome.error == "2 sources need a folder to write to, one output each: got 'null:'"
    assert not (tmp_path / "null:").exists()


def test_brackets_nested_too_deep_are_no_configuration(call, tmp_path):
    (tmp_path / "deep.toml").write_text("[options]\nx=" + "[" * 3000)
    assert call("run", "--config", "deep.toml").error == (
        "deep.toml: the configuration is not one: its brackets are nested too deep"
    )


def test_help_is_quick_and_loads_nothing_heavy(spawn):
    code = (
        "import sys\nfrom hyperframes.cli._app import app\nfrom hyperframes.cli._show import exit_code_of\n"
        "exit_code_of(app, ['run', '--help'])\n"
        "print([m for m in ('numpy', 'numba', 'av', 'cv2', 'psutil') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "--operator" in done.stdout


@pytest.mark.slow
@pytest.mark.alone
def test_help_takes_under_half_a_second(spawn):
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        spawn("--help").communicate()
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.5


def test_the_result_in_python_is_the_same(call, array):
    call("run", array, "out.npy", "-p", "temporal_mean:radius=2")
    assert np.array_equal(np.load("out.npy"), hf.run(np.load(array), "temporal_mean:radius=2").array)


def test_what_is_selected_and_must_be_converted_says_how(call, clip):
    outcome = call("run", clip, "moved/", "-p", "select_motion")
    assert outcome.code == 2
    assert outcome.error.startswith(
        "conversion 'select_motion->rgb24,NHWC' reads 'select_motion', which leaves frames out"
    )
    assert outcome.hint.startswith("Have frames converted before they are selected, as with --pixel-format rgb24")
    assert call("run", clip, "moved/", "-p", "select_motion", "--pixel-format", "rgb24").code == 0
