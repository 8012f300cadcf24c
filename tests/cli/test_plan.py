"""`hyperframes plan`: the ranges of W1 as a table and as JSON, without running anything."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

PLAN_KEYS = {"total_frames", "exact", "size", "halo", "hyperframes", "halo_overhead", "memory_bytes", "memory"}


def planned(call, *arguments):
    outcome = call("plan", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_json_has_the_promised_keys_and_nothing_else(call, array):
    told = planned(call, array, "-p", "temporal_mean:radius=2")
    assert told.keys() == PLAN_KEYS
    assert all(
        row.keys() == {"index", "core", "read", "pad_before", "pad_after"} for row in told["hyperframes"]
    )  # fmt: skip


@pytest.mark.requirement("A24")
@pytest.mark.requirement("A71")
def test_cores_partition_the_stream_and_reads_are_cores_with_halo_clipped_to_it(call, array):
    told = planned(call, array, "-p", "temporal_mean:before=3,after=1", "--size", "7")
    assert told["halo"] == {"before": 3, "after": 1}
    at = 0
    for index, row in enumerate(told["hyperframes"]):
        start, stop = row["core"]
        assert row["index"] == index
        assert start == at
        assert row["read"] == [max(0, start - 3), min(40, stop + 1)]
        assert (row["pad_before"], row["pad_after"]) == (max(0, 3 - start), max(0, stop + 1 - 40))
        at = stop
    assert at == told["total_frames"] == 40
    read = sum(row["read"][1] - row["read"][0] for row in told["hyperframes"])
    assert told["halo_overhead"] == pytest.approx((read - 40) / 40)


def test_memory_grows_with_the_size(call, clip):
    small = planned(call, clip, "-p", "temporal_mean:radius=1", "--size", "2")
    large = planned(call, clip, "-p", "temporal_mean:radius=1", "--size", "20")
    assert 0 < small["memory"]["frames"] < large["memory"]["frames"]
    for told in (small, large):
        assert told["memory_bytes"] == sum(told["memory"].values())
        assert told["memory"]["decoders"] > 0
        assert told["memory"]["program"] > 10e6


def test_the_memory_of_results_is_counted_as_a_run_counts_it(call, array):
    """Three hyperframes of results, where two are worked on and one is written; arrays are viewed, not copied."""
    told = planned(call, array, "-p", "temporal_mean:radius=1", "--size", "4", "--workers", "2")
    frame = np.load(array, mmap_mode="r")[0].nbytes
    assert told["memory"]["frames"] == 3 * (-(-4 * frame // 64) * 64)
    assert told["memory"]["decoders"] == 0


def test_a_range_plans_only_those_frames_and_reads_beyond_them(call, array):
    told = planned(call, array, "-p", "temporal_mean:radius=2", "--range", "10:20", "--size", "4")
    assert [row["core"] for row in told["hyperframes"]] == [[10, 14], [14, 18], [18, 20]]
    assert told["hyperframes"][0]["read"] == [8, 16]


def test_counting_makes_the_length_of_a_video_exact(call, clip):
    told = planned(call, clip, "--count")
    assert (told["total_frames"], told["exact"]) == (40, True)


def test_a_length_that_nothing_says_is_counted(call, tmp_path):
    events = np.zeros(60, [("t", "i8"), ("x", "i2"), ("y", "i2"), ("p", "i1")])
    events["t"] = np.arange(60) * 1000  # microseconds
    np.savez(tmp_path / "dvs.npz", **{name: events[name] for name in "txyp"})
    told = planned(call, "dvs.npz?window=10ms&sensor=8,8", "--size", "2")
    assert (told["total_frames"], told["exact"]) == (6, True)
    assert [row["core"] for row in told["hyperframes"]] == [[0, 2], [2, 4], [4, 6]]


def test_a_pipe_is_not_used_up_by_a_plan(call, clip, tmp_path):
    assert call("run", clip, "film.y4m").code == 0
    command = [sys.executable, "-m", "hyperframes", "plan", "-"]
    with (tmp_path / "film.y4m").open("rb") as pipe:
        done = subprocess.run(command, stdin=pipe, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: standard input does not say how many frames it has, and counting would use it up",
        "hint: Name a file; or count all the same: hyperframes plan ... --count",
    ]


def test_the_table_has_a_row_for_each_hyperframe_and_a_summary(call, array):
    outcome = call("plan", array, "-p", "temporal_mean:radius=2", "--size", "16")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0][:3] == ["hyperframe", "core", "read"]
    assert [line[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert "[16, 32)" in outcome.out
    assert "[14, 34)" in outcome.out
    assert "40 frames in 3 hyperframes of 16, halo 2 + 2: 20 % read twice; " in outcome.out
    assert re.search(r" of memory with \d workers?, [\d.]+ .?B of it for frames; encoders add to that", outcome.out)
    assert outcome.err == ""


def test_a_long_plan_is_cut_in_the_table_and_whole_in_json(call, tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((5_000, 3), np.float32))
    outcome = call("plan", "rows.npy", "--size", "10")
    rows = outcome.out.splitlines()
    assert rows[13].split() == ["..."]
    assert rows[25].split()[0] == "499"
    assert len(planned(call, "rows.npy", "--size", "10")["hyperframes"]) == 500


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "5"], "size 5 was asked for; auto would begin with "),
        ([], "preset 16 to 128"),
        (["--max-memory", "120kB"], "is what fits in the memory allowed"),
        (["--executor", "processes"], "arrays are copied to memory that worker processes share, which is counted here"),
    ],
)
def test_explain_says_why_this_size(call, array, options, said):
    outcome = call("plan", array, "-p", "temporal_mean:radius=1", "--explain", *options)
    assert outcome.code == 0, outcome.err
    assert said in outcome.out
    assert "each reads 1 + 1 frames of its neighbours" in outcome.out


def test_an_empty_stream_has_an_empty_plan(call, tmp_path):
    np.save(tmp_path / "none.npy", np.zeros((0, 4, 4), np.uint8))
    told = planned(call, "none.npy")
    assert told["hyperframes"] == []
    assert told["halo_overhead"] == 0


def test_a_plan_needs_a_source(call):
    outcome = call("plan")
    assert outcome.code == 2
    assert outcome.error == "plan needs a source, or --config: got neither"
    assert outcome.hint.startswith("For example: hyperframes plan in.mp4")


def test_a_configuration_is_planned(call, array, tmp_path):
    (tmp_path / "job.toml").write_text(f'[sources]\nsource = "{array}"\n[options]\nsize = 8\n')
    assert len(planned(call, "--config", "job.toml")["hyperframes"]) == 5
