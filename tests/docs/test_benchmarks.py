"""The page of benchmarks says what the results say."""

import subprocess
import sys


def rounds(seconds, **facts):
    one = {"seconds": seconds, "cpu_seconds": 2 * seconds, "done": 10, "other_cores": 0.0}
    return [{**one, **({"facts": facts} if facts else {})} for _ in range(3)]


MACHINE = {"processor": "P", "cores": 2, "memory_bytes": 2**34, "system": "Linux"}


def result(name, measured=None, **more):
    return {
        "workload": name,
        "when": "2026-01-01T00:00:00Z",
        "machine": MACHINE,
        "versions": {"hyperframes": {"python": "3.11.7"}},
        **({"rounds": measured} if measured else {}),
        **more,
    }


def test_the_page_and_its_chart_are_current(root):
    done = subprocess.run(
        [sys.executable, "tools/benchmarks.py", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_page_that_is_not_current_fails_the_check(tool, tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    module = tool("benchmarks")
    assert module.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "error: docs/benchmarks.md is not what the results say: make docs\n"
    assert module.main([], tmp_path) == 0
    assert module.main(["--check"], tmp_path) == 0


def test_a_target_stands_beside_what_was_measured(tool):
    measured = {"hyperframes": rounds(1.0), "limit: decoding only": rounds(0.9), "ffmpeg tmix": rounds(2.5)}
    module = tool("benchmarks")
    results = {"file_yuv": result("file_yuv", measured)}
    text = module.page(results)
    title = "File to mean of 5 frames in YUV, nothing written"
    assert f"| {title} | limit: decoding only | 0.92 | 0.90 | 0.90 | 3 of 3 | no |" in text
    assert f"| {title} | ffmpeg tmix | 2.00 | 2.50 | 2.50 | 3 of 3 | yes |" in text
    assert "VapourSynth" not in text.partition("## Targets")[2]
    assert "| hyperframes | 10.0 | 200.00 ms | 3 of 3 |  |" in text
    picture = module.chart(results)
    assert (picture.count('class="bar"'), picture.count('class="short"'), picture.count('class="target"')) == (1, 1, 2)


def test_agreement_is_told_in_words(tool):
    same = {
        "identical": 5,
        "num_frames": 5,
        "num_expected": 5,
        "differing": 0.0,
        "largest": 0.0,
        "psnr": None,
        "ends": False,
    }
    off = {**same, "identical": 0, "num_frames": 4, "differing": 0.25, "largest": 3.0, "psnr": 40.0, "ends": True}
    agreement = {"hyperframes": {"reference": True}, "a": same, "b": off, "c": {"error": "OSError: no"}}
    measured = {label: rounds(1.0) for label in agreement}
    text = tool("benchmarks").page({"file_rgb": result("file_rgb", measured, agreement=agreement)})
    for words in (
        "the others are compared with these",
        "the same, bit for bit",
        "4 of 5 frames; 25.0 % of samples differ at the ends, by at most 3, PSNR 40.0 dB",
        "failed: OSError: no",
    ):
        assert f"| {words} |" in text


def test_encoded_quality_is_told_at_equal_size(tool):
    def encoded(nbytes, psnr):
        return {"identical": 0, "num_frames": 5, "num_expected": 5, "differing": 1.0, "largest": 9.0, "psnr": psnr,
                "ends": False, "facts": {"bytes": nbytes}}  # fmt: skip

    agreement = {
        "hyperframes veryfast": encoded(200, 32.5),
        "ffmpeg veryfast": encoded(100, 30.0),
        "ffmpeg veryfast, crf 19": encoded(400, 34.0),
        "exact result": {"reference": True, "num_frames": 5},
    }
    measured = {"hyperframes veryfast": rounds(1.0), "ffmpeg veryfast": rounds(1.2)}
    text = tool("benchmarks").page({"h264_veryfast": result("h264_veryfast", measured, agreement=agreement)})
    assert "At equal size ours is 0.50 dB better." in text


def test_memory_and_wrong_frames_have_tables_of_their_own(tool):
    memory = {
        "dask, RGB": [{"seconds": 2.0, "peak_bytes": 3_000_000_000}],
        "hyperframes, RGB": [{"seconds": 1.0, "peak_bytes": 300_000_000, "facts": {"planned_bytes": 100_000_000}}],
        "gone": [{"error": "MemoryError: all"}],
    }
    told = {"wrong": 3, "compared": 10, "num_frames": 12, "num_expected": 10}
    positions = result(
        "position_ts", agreement={"PyAV from the start": {"reference": True}, "x": told, "y": {"error": "no"}}
    )
    text = tool("benchmarks").page({"peak_memory": result("peak_memory", memory), "position_ts": positions})
    assert "| hyperframes, RGB | 300 MB | 100 MB | 1.0 |\n| dask, RGB | 3,000 MB |  | 2.0 |\n| gone | failed" in text
    assert "| x | 3 of 10, 2 beyond the end |\n| y | no |" in text


def test_results_are_measured_with_versions_and_machine(root, tool):
    benchmarks = tool("benchmarks")
    compared = {workload.name for workload in benchmarks.ALL}
    for name, told in benchmarks.read(root).items():
        if name not in compared:
            continue
        assert {"workload", "when", "machine", "versions", "num_frames"} <= set(told)
        assert told["workload"] == name
        assert told["versions"]["hyperframes"]["commit"]
