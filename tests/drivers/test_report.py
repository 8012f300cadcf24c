"""The recorder keeps what the report tells in bounded memory; the report tells it as JSON and as one HTML page."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers import recorder as recording
from hyperframes.drivers.recorder import Durations, Recorder, Series, TaskRecord
from hyperframes.drivers.report import Report, check_report_path
from hyperframes.drivers.result import RunResult
from hyperframes.errors import PipelineError, SinkError
from hyperframes.packing import Halo

MS = 1_000_000


def task(duration_ns, sequence=0, stage="blur"):
    return TaskRecord(duration_ns, sequence, 0, f"ab-{sequence}", (0, 16), stage, 0, 0)


def feed(recorder, durations_ns, *, stage="blur", size=16, workers=2):
    """Tell `recorder` of one hyperframe after the other, each worker busy without a pause."""
    clock = [0] * workers
    for sequence, ns in enumerate(durations_ns):
        worker = sequence % workers
        core = (sequence * size, (sequence + 1) * size)
        common = {"sequence": sequence, "id": f"ab-{sequence}"}
        recorder.observe({"kind": "sealed", "ns": clock[worker], "core": core, **common})
        done = {"stage": stage, "part": 0, "worker": worker, "begin_ns": clock[worker], "duration_ns": ns}
        clock[worker] += ns
        recorder.observe({"kind": "done", "ns": clock[worker], **done, **common})
        recorder.observe({"kind": "emitted", "ns": clock[worker], "core": core, "whole": True, **common})
        recorder.observe({"kind": "memory", "ns": clock[worker], "bytes": 1000 + sequence})
    recorder.observe({"kind": "finished", "ns": max(clock), "seconds": max(clock) / 1e9, "error": ""})
    return max(clock) / 1e9


def result_of(recorder, seconds, **changes):
    values = {
        "id": "ab12-cd34",
        "frames_in": 160,
        "frames_out": 160,
        "filtered": 0,
        "hyperframes": 10,
        "size": 16,
        "halo": Halo(2, 1),
        "workers": 2,
        "executor": "threads",
        "seconds": seconds,
        "peak_memory_bytes": 5_000_000,
        "scheduler_share": 0.01,
        "stages": {"blur": 1.0},
        "conversions": [],
        "retries": 0,
        "failed": [],
        "output": ["out.mp4"],
    }
    result = RunResult(**{**values, **changes})
    result.recorder = recorder
    return result


# Recorder -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A91")
def test_every_task_is_counted_however_few_are_kept():
    recorder = Recorder()
    feed(recorder, [MS] * 35_000)
    assert len(recorder.tasks) <= recording.MAX_TASKS
    assert recorder.durations["blur"].count == recorder.counts["done"] == recorder.counts["sealed"] == 35_000
    assert sum(value for value in recorder.frames.values if value) == 35_000 * 16
    assert recorder.busy_ns == {0: 17_500 * MS, 1: 17_500 * MS}


def test_the_tasks_kept_are_spread_evenly_over_the_run():
    recorder = Recorder()
    feed(recorder, [MS] * 35_000)
    gaps = np.diff([kept.sequence for kept in recorder.tasks])
    assert set(gaps) == {recorder.stride} == {4}


def test_a_hyperframe_of_many_parts_does_not_make_the_recorder_drop_everything(monkeypatch):
    monkeypatch.setattr(recording, "MAX_TASKS", 8)
    recorder = Recorder()
    for part in range(20):
        done = {"stage": "blur", "part": part, "worker": 0, "begin_ns": 0, "duration_ns": MS}
        recorder.observe({"kind": "done", "ns": 0, "sequence": 0, "id": "ab-0", **done})
    assert len(recorder.tasks) == 20
    assert recorder.stride == 1


@pytest.mark.requirement("A89")
def test_outliers_take_over_twice_the_median_of_their_own_stage():
    recorder = Recorder()
    feed(recorder, [10 * MS] * 40 + [25 * MS] + [19 * MS], stage="slow")
    feed(recorder, [MS] * 40 + [3 * MS], stage="quick")
    assert [t.duration_ns for t in recorder.durations["slow"].outliers()] == [25 * MS]
    assert [t.duration_ns for t in recorder.durations["quick"].outliers()] == [3 * MS]


def test_the_longest_outliers_are_kept_and_all_are_counted():
    durations = Durations()
    for sequence in range(10_000):
        durations.add(task(MS if sequence % 4 else 5 * MS + sequence, sequence))
    kept = durations.outliers()
    assert len(kept) == recording.MAX_OUTLIERS
    assert kept[0].sequence == 9_996
    assert durations.num_outliers == 2_500


def test_quantiles_are_within_a_third_of_a_percent():
    rng = np.random.default_rng(1)
    values = rng.lognormal(15, 1, 5_001)
    durations = Durations()
    for value in values:
        durations.add(task(int(value)))
    for share in (0.05, 0.5, 0.95):
        assert durations.quantile_ns(share) == pytest.approx(np.quantile(values, share), rel=0.01)
    assert durations.quantile_ns(0.5) == pytest.approx(np.median(values), rel=0.0035)
    assert durations.most_ns == int(values.max())
    assert durations.total_ns == sum(int(value) for value in values)


def test_a_series_halves_its_resolution_instead_of_growing():
    levels, amounts = Series(max, 10), Series(lambda a, b: a + b, 10)
    for ns in range(0, 100_000, 10):
        levels.add(ns, ns)
        amounts.add(ns, 1)
    assert len(levels.values) <= recording.MAX_SAMPLES
    assert levels.step_ns == 10 * 16
    assert max(levels.values) == 99_990
    assert sum(amounts.values) == 10_000


def test_a_series_leaves_gaps_where_nothing_was_seen():
    series = Series(max, 10)
    series.add(5, 1)
    series.add(35, 2)
    assert series.values == [1, None, None, 2]


def stream(recorder, rows):
    """Tell `recorder` of hyperframes on one worker: when each was sealed, begun and done, in ms; the end is 100."""
    recorder.observe({"kind": "began", "ns": 0, "setup": None})
    for sequence, (sealed, begun, done) in enumerate(rows):
        common = {"sequence": sequence, "id": f"ab-{sequence}"}
        recorder.observe({"kind": "sealed", "ns": sealed * MS, "core": (sequence, sequence + 1), **common})
        task = {"stage": "blur", "part": 0, "worker": 0, "begin_ns": begun * MS, "duration_ns": (done - begun) * MS}
        recorder.observe({"kind": "done", "ns": done * MS, **task, **common})
    recorder.observe({"kind": "finished", "ns": 100 * MS, "seconds": 0.1, "error": ""})


def test_idle_time_before_a_hyperframe_is_sealed_is_the_sources_and_after_it_the_sinks():
    slow_source, slow_sink = Recorder(), Recorder()
    stream(slow_source, [(30, 30, 40), (70, 70, 80), (95, 95, 100)])
    assert (slow_source.starved_ns, slow_source.gap_ns) == (75 * MS, 75 * MS)
    stream(slow_sink, [(10, 10, 20), (12, 50, 60)])
    assert (slow_sink.starved_ns, slow_sink.gap_ns) == (10 * MS, (10 + 30 + 40) * MS)


def test_failed_and_dropped_hyperframes_are_counted_and_forgotten():
    recorder = Recorder()
    recorder.observe({"kind": "sealed", "ns": 0, "sequence": 0, "id": "ab-0", "core": (0, 16)})
    recorder.observe({"kind": "failed", "ns": 1, "sequence": 0, "id": "ab-0", "attempt": 0, "error": "x"})
    recorder.observe({"kind": "dropped", "ns": 2, "sequence": 0, "id": "ab-0", "reason": "failed", "core": (0, 16)})
    recorder.observe({"kind": "emitted", "ns": 3, "sequence": 0, "id": "ab-0", "core": (0, 16), "whole": False})
    assert recorder.counts == {"sealed": 1, "done": 0, "emitted": 0, "failed_attempts": 1}
    assert recorder.dropped == {"failed": 1}
    assert recorder._cores == {}


# Report ---------------------------------------------------------------------------------------------------------------


def example(**changes):
    recorder = Recorder()
    seconds = feed(recorder, [10 * MS] * 9 + [31 * MS])
    return Report.of(result_of(recorder, seconds, **changes))


def test_the_report_names_outliers_by_hyperframe_and_frames():
    (outlier,) = example().to_json()["outliers"]
    assert outlier["id"] == "ab-9"
    assert outlier["frames"] == [144, 160]
    assert outlier["times_median"] == pytest.approx(3.1, rel=0.01)


def test_the_first_task_of_a_worker_is_told_as_warm_up():
    recorder = Recorder()
    seconds = feed(recorder, [31 * MS] + [10 * MS] * 9 + [29 * MS])
    report = Report.of(result_of(recorder, seconds))
    told = [(o["id"], o["first_of_worker"]) for o in report.to_json()["outliers"]]
    assert told == [("ab-0", True), ("ab-10", False)]
    rows = report.to_html().partition("Outliers")[2].partition("</table>")[0].split("<tr>")[2:]
    assert ["warm-up" in row for row in rows] == [True, False]


def test_the_drawings_over_time_share_one_axis_and_say_their_units():
    recorder = Recorder()
    seconds = feed(recorder, [200 * MS] * 60)
    html = Report.of(result_of(recorder, seconds)).to_html()
    axes = [
        re.findall(
            r'class="tick" x="([\d.]+)"[^>]*text-anchor="middle">([^<]+)<',
            html.partition(label)[2].partition("</svg>")[0],
        )
        for label in ("hyperframes per worker over time", "frames per second over time", "bytes over time")
    ]
    assert len(axes[0]) > 3
    assert axes[0] == axes[1] == axes[2]
    assert ">frames/s</text>" in html


def test_the_page_tells_whom_idle_workers_wait_for():
    html = example().to_html()
    for said in ("a hyperframe may be split", "waiting for the source", "waiting for sinks", ">scheduler share<"):
        assert said in html
    assert "coordination" not in html


def test_drawings_and_wide_tables_scroll_on_a_telephone_and_say_so():
    html = example().to_html()
    assert html.count('<div class="chart') == html.count("<svg")
    assert 'class="scroll wide"' in html
    assert 'content:"scroll sideways →"' in html
    assert "overflow-wrap:anywhere" in html


def test_the_histogram_holds_every_task():
    (entry,) = example().to_json()["durations"]
    assert sum(entry["histogram"]["counts"]) + entry["histogram"]["above"] == entry["count"] == 10


def test_throughput_over_time_adds_up_to_all_frames_and_is_not_a_row_of_spikes():
    recorder = Recorder()
    seconds = feed(recorder, [200 * MS] * 60)  # each worker delivers every 200 ms, the steps are of 50 ms
    told = Report.of(result_of(recorder, seconds)).to_json()["throughput"]
    rates = told["frames_per_second"]
    assert sum(rates[:-1]) * told["step_seconds"] <= 60 * 16
    assert min(rates[1:]) > 0.5 * 160
    assert max(rates[1:]) < 2 * 160


def test_the_json_is_json_and_has_the_keys_of_run():
    told = json.loads(json.dumps(example().to_json()))
    assert told["run"]["hyperframes"] == 10
    assert told["memory"]["peak_bytes"] == 5_000_000
    assert told["machine"]["cpus"]
    assert set(told["machine"]["nodes"]) >= {"0"}
    assert [w["worker"] for w in told["workers"]] == [0, 1]


@pytest.mark.requirement("A79")
@pytest.mark.parametrize(("share", "warns"), [(0.1, False), (0.13, True)])
def test_a_scheduler_share_above_ten_percent_is_a_warning(share, warns):
    report = example(scheduler_share=share)
    warning = report.to_json()["scheduler"]["warning"]
    assert (warning is not None) == warns
    if warns:
        assert warning == (
            "the scheduler share is 13 % of the workers' time: expected at most 10 %. "
            "A larger --size makes fewer, longer tasks."
        )
        assert warning.replace("'", "&#x27;") in report.to_html()


class Checker(HTMLParser):
    """Notes tags that are opened and not closed, and everything that would be fetched."""

    void = frozenset({"meta", "line", "rect", "path", "polyline", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.titles = [], [], []

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in {"src", "href", "srcset", "data"}]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


def checked(html):
    checker = Checker()
    # Bars that carry a title are not void.
    checker.feed(re.sub(r"<rect ([^>]*[^/])>", r"<g \1>", html).replace("</rect>", "</g>"))
    assert checker.open == []
    return checker


def test_the_page_is_whole_and_fetches_nothing():
    html = example().to_html()
    checker = checked(html)
    assert checker.fetched == []
    assert "<script" not in html
    assert "url(" not in html
    assert "prefers-color-scheme:dark" in html


def test_the_page_shows_every_hyperframe_and_marks_the_outlier():
    html = example().to_html()
    timeline = html.partition("hyperframes per worker over time")[2].partition("</svg>")[0]
    assert timeline.count("<rect") == 10
    assert timeline.count(" out") == 1
    assert "ab-9: frames 144 to 159, blur, 31&nbsp;ms" in timeline


def test_text_from_outside_cannot_become_markup():
    nasty = "<script>alert(1)</script>"
    html = example(
        warnings=[nasty],
        failed=[{"id": "ab-1", "frames": [0, 16], "error": nasty}],
        output=[nasty],
        conversions=[nasty],
    ).to_html()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 3
    checked(html)


def test_a_run_in_which_nothing_was_done_has_a_page_too():
    html = Report.of(result_of(Recorder(), 0.0, frames_in=0, frames_out=0, hyperframes=0, output=[])).to_html()
    checked(html)
    assert "Timeline" not in html


def test_a_long_run_keeps_the_page_small():
    recorder = Recorder()
    seconds = feed(recorder, [MS + (i % 997) * 3000 for i in range(20_000)], workers=4)
    html = Report.of(result_of(recorder, seconds)).to_html()
    assert "One hyperframe in 2 is shown" in html
    assert len(html) < 3_000_000


def test_a_report_is_saved_as_html_or_json(tmp_path):
    report = example()
    assert report.save(tmp_path / "r.html").read_text(encoding="utf-8") == report.to_html()
    assert json.loads(report.save(tmp_path / "r.json").read_text()) == report.to_json()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_a_report_of_another_kind_is_refused(tmp_path):
    with pytest.raises(PipelineError, match=r"^a report is \.html or \.json: got 'r\.pdf'$") as caught:
        example().save(tmp_path / "r.pdf")
    assert caught.value.hint == "For example: --report r.html"


def test_a_report_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    with pytest.raises(SinkError, match=r"cannot write the report .*: .*'.*/nowhere' is no folder that can be written"):
        check_report_path(tmp_path / "nowhere" / "r.html")
    (tmp_path / "r.html").mkdir()
    with pytest.raises(SinkError, match="a folder stands there"):
        check_report_path(tmp_path / "r.html")


def test_a_run_without_a_recorder_has_no_report():
    with pytest.raises(PipelineError, match=r"^the run was not recorded, so there is nothing to report$"):
        Report.of(result_of(None, 1.0))


def test_the_report_of_a_real_run_tells_what_ran():
    frames = np.random.default_rng(3).integers(0, 255, (50, 12, 16), np.uint8)
    result = hf.run(frames, ["temporal_mean:radius=1", "gaussian:sigma=1"], size=8, workers=1)
    told = json.loads(json.dumps(result.report().to_json()))
    assert [stage["operator"] for stage in told["what"]["stages"]] == ["temporal_mean:radius=1", "gaussian"]
    assert told["what"]["options"] == {"size": 8, "workers": 1}
    assert told["counts"] == {"sealed": 7, "done": 7, "emitted": 7, "failed_attempts": 0, "dropped": {}}
    assert {tuple(t["frames"]) for t in told["timeline"]["tasks"]} == {(s, min(s + 8, 50)) for s in range(0, 50, 8)}
    html = result.report().to_html()
    checked(html)
    assert "temporal_mean:radius=1" in html


def test_the_report_lists_the_sizes_that_a_run_changed_to():
    recorder = Recorder()
    seconds = feed(recorder, [MS] * 10)
    result = result_of(recorder, seconds, size=256, sizes=((0, 64), (320, 256)))
    assert "of 64, 256 from frame 320, halo 2&nbsp;+&nbsp;1" in result.report().to_html()
    assert "10 hyperframes of 64 to 160 frames" in str(result)
    assert result.report().to_json()["run"]["sizes"] == [{"frame": 0, "size": 64}, {"frame": 320, "size": 256}]
