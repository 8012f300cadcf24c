"""`hyperframes budget` both ways, against numbers computed by hand from W4."""

import json

import pytest

KEYS = {
    "feasible", "reasons", "size", "timeout_seconds", "queue_depth", "ttl_seconds", "latency_seconds",
    "frames_per_second_capacity", "warnings",
}  # fmt: skip


def told(call, *options):
    outcome = call("budget", *options, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.mark.requirement("B39")
@pytest.mark.requirement("B40")
def test_half_a_second_at_30_frames_a_second_allows_9_by_the_bound(call):
    answer = told(call, "--fps", "30", "--latency", "500ms", "--infer", "20ms+5ms")
    assert set(answer) == KEYS
    assert set(answer["latency_seconds"]) == {"pack", "queue", "prepare", "infer", "unpack", "total"}
    assert answer["feasible"]
    assert answer["size"] == 9  # floor(0.6 * 0.5 * 30)
    assert answer["timeout_seconds"] == pytest.approx(0.3)
    assert answer["latency_seconds"]["pack"] == pytest.approx(8 / 30)
    assert answer["latency_seconds"]["infer"] == pytest.approx(0.020 + 9 * 0.005)
    assert answer["latency_seconds"]["total"] == pytest.approx(8 / 30 + 0.065)
    assert answer["ttl_seconds"] == pytest.approx(0.5 - 0.065)
    assert answer["frames_per_second_capacity"] == pytest.approx(9 / 0.065)


@pytest.mark.requirement("B38")
def test_a_size_of_8_waits_233_ms_and_of_16_half_a_second(call):
    for size, pack in ((8, 7 / 30), (16, 0.5)):
        assert told(call, "--fps", "30", "--size", size)["latency_seconds"]["pack"] == pytest.approx(pack)


@pytest.mark.requirement("B38")
def test_a_wait_of_200_ms_allows_6_by_the_bound(call):
    assert told(call, "--fps", "30", "--latency", f"{200 / 0.6:.6f}ms")["size"] == 6


@pytest.mark.requirement("B41")
def test_the_queue_holds_hyperframes_not_frames(call):
    """30 frames/s for 0.2 s are 0.75 of a hyperframe of 8, so 1; from 48 streams 36."""
    for sources, depth in ((1, 1), (48, 36)):
        answer = told(call, "--fps", "30", "--sources", sources, "--size", "8", "--queue-time", "200ms")
        assert answer["queue_depth"] == depth


def test_a_full_queue_of_given_depth_is_waited_through(call):
    answer = told(call, "--fps", "30", "--size", "8", "--queue", "3", "--infer", "50ms")
    assert answer["latency_seconds"]["queue"] == pytest.approx(0.15)


def test_halo_and_preparation_count(call):
    options = ("--fps", "25", "--size", "10", "--halo", "2,1", "--infer", "10ms+2ms", "--prepare", "1ms")
    stages = told(call, *options, "--unpack", "3ms", "--transport", "7ms")["latency_seconds"]
    assert stages["pack"] == pytest.approx((10 - 1 + 1) / 25)
    assert stages["prepare"] == pytest.approx(0.8 * 10 * 0.001)
    assert stages["infer"] == pytest.approx(0.010 + 13 * 0.002)
    assert stages["total"] == pytest.approx(0.4 + 0.008 + 0.036 + 0.003 + 0.007)


@pytest.mark.requirement("B44")
@pytest.mark.parametrize(
    ("preset", "size", "timeout"), [("latency-first", 4, 0.15), ("balanced", 8, 0.3), ("throughput-first", 16, 0.5)]
)
def test_presets_are_sizes_with_timeouts(call, preset, size, timeout):
    answer = told(call, "--fps", "30", "--preset", preset)
    assert (answer["size"], answer["timeout_seconds"]) == (size, pytest.approx(timeout))
    assert answer["warnings"] == []


def test_what_is_impossible_is_an_answer_with_reasons(call):
    outcome = call("budget", "--fps", "30", "--sources", "48", "--latency", "500ms", "--infer", "0+2ms")
    assert outcome.code == 0
    assert "this does not work:" in outcome.out
    assert "48 sources at 30 frames/s bring 1440 frames/s: 1 worker can do 500" in outcome.out
    assert "3 workers, fewer sources or fewer frames a second would keep up" in outcome.out
    answer = told(call, "--fps", "30", "--latency", "500ms", "--infer", "600ms")
    assert not answer["feasible"]
    assert any("500 ms are allowed" in reason for reason in answer["reasons"])


def test_a_capacity_without_bound_is_null(call):
    assert told(call, "--fps", "30", "--size", "8")["frames_per_second_capacity"] is None


def test_the_table_has_a_row_a_stage_with_its_reason(call):
    out = call("budget", "--fps", "30", "--latency", "500ms", "--infer", "20ms+5ms", "--halo", "1").out
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for stage in ("pack", "queue", "prepare", "infer", "unpack", "total"):
        assert stage in rows
    assert "- 1 + 1 of halo) frames at 30 frames/s" in rows["pack"]
    assert "and 2 of halo" in rows["infer"]
    assert "500 ms are allowed" in rows["total"]
    assert "the latency is kept" in out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--fps", "30"], "budget needs a --latency to keep, or a --size or --preset to judge: got none of them"),
        (["--fps", "0", "--size", "8"], "fps: expected more than 0, got 0"),
        (["--fps", "30", "--latency", "500"], "--latency: expected a time such as 200ms or 1.5s, got '500'"),
        (["--fps", "30", "--latency", "1s", "--infer", "x"], "--infer: expected a time such as 200ms or 1.5s, got 'x'"),
        (["--fps", "30", "--latency", "1s", "--halo", "a"], "--halo: expected BEFORE,AFTER in frames, got 'a'"),
        (
            ["--fps", "30", "--preset", "fast"],
            "no preset named 'fast': expected one of latency-first, balanced, throughput-first",
        ),
        (["--fps", "30", "--latency", "1s", "--queue", "3"], "--queue belongs to a --size: got none"),
        (
            ["--fps", "30", "--size", "8", "--queue", "3", "--queue-time", "1s"],
            "--queue and --queue-time say the same in two ways: expected one of them, got both",
        ),
    ],
)
def test_wrong_use_is_told(call, options, error):
    outcome = call("budget", *options)
    assert outcome.code == 2
    assert [line for line in outcome.err.splitlines() if line.startswith("error: ")] == [f"error: {error}"]


@pytest.mark.requirement("D138")
def test_a_path_of_50_ms_from_camera_to_answer_is_planned_or_refused(call):
    """Driver monitoring: at 60 frames a second an 8 ms model fits, and one of 60 ms does not."""
    fits = told(call, "--fps", "60", "--latency", "50ms", "--infer", "4ms+4ms")
    assert fits["feasible"] is True
    assert fits["latency_seconds"]["total"] <= 0.05
    late = json.loads(call("budget", "--fps", "60", "--latency", "50ms", "--infer", "60ms", "--json").out)
    assert late["feasible"] is False
    assert late["reasons"]
