"""Write docs/benchmarks.md and docs/benchmarks.svg from the results that benchmarks/rivals/runner.py and bench_learned.py left.

python tools/benchmarks.py           write the files
python tools/benchmarks.py --check   fail when they are not what would be written
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks" / name) for name in ("rivals", "learned")]

from agreement import psnr_at
from learned_tables import section
from summary import QUIET_CORES, Ratio, figure, ratio
from workloads import ELSEWHERE, WORKLOADS, Target, Workload

ALL = (*WORKLOADS, *ELSEWHERE)
PAGE = Path("docs/benchmarks.md")
CHART = Path("docs/benchmarks.svg")
RESULTS = Path("benchmarks/results")

HEAD = f"""# Benchmarks against others

<!-- Written by tools/benchmarks.py from benchmarks/results: `make docs`. -->

Each rival runs in an environment of its own with every package pinned (`benchmarks/rivals/envs`), at its best settings,
in a process that stays for all rounds. Rounds take one case after another in turn, so that whatever the machine does meets
all of them. Starting, importing and compiling are not counted, nor is the first round, except that the ffmpeg program starts anew
each time. Ratios are formed within each round; medians over rounds are shown. A round is quiet when other processes used less
than {QUIET_CORES:g} cores; with fewer than three quiet rounds all count, wall times are then those of a busy machine, and targets
are judged by CPU time. All results are compared, frame by frame.

Run it: `make rivals`, about half an hour; `python benchmarks/rivals/runner.py --help` says how to run a part. It needs ffmpeg,
and Python 3.12 for VapourSynth, and installs the rivals (2.5 GB) under the user's cache folder.
"""


def page(results: dict[str, dict[str, Any]], learned: Sequence[dict[str, Any]] = ()) -> str:
    """Return the text of docs/benchmarks.md from results by workload, and those of learned hyperframes."""
    measured = [(w, results[w.name]) for w in ALL if w.name in results]
    if not measured:
        return HEAD + "\nNothing has been measured yet.\n"
    parts = [HEAD, *_machines(measured), "## Targets\n", _targets(measured)]
    parts += [f"![how many times as fast, against the target]({CHART.name})\n"]
    positions = [(w, r) for w, r in measured if w.kind == "position"]
    for workload, result in measured:
        if workload.kind == "time":
            parts += [f"## {workload.title}\n", _times(workload, result)]
            if workload.name.startswith("h264"):
                parts.append(_quality(workload, result))
        elif workload.kind == "memory":
            parts += [f"## {workload.title}\n", _memory(result)]
    if positions:
        parts += ["## Frames by their position\n", _positions(positions)]
    parts += filter(None, [section(learned)])
    if "live_model" in results:
        parts += ["## Live: frame mode beside packed mode\n", _live_model(results["live_model"])]
    parts += [part for name, section in SECTIONS.items() if name in results for part in section(results[name])]
    parts += ["## Versions\n", _versions(measured)]
    return "\n".join(parts).rstrip() + "\n"


def _machines(measured: list[tuple[Workload, dict[str, Any]]]) -> list[str]:
    found = {}
    for _, result in measured:
        m = result["machine"]
        text = f"{m['processor']}; {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB, {m['system']}"
        found.setdefault(text, []).append(result["when"])
    return [f"Machine: {text}; measured {min(times)} to {max(times)}.\n" for text, times in found.items()]


def rows_of(measured: list[tuple[Workload, dict[str, Any]]]) -> list[tuple[Workload, Target, Ratio]]:
    """Return every target that was measured, with its ratio."""
    rows = []
    for workload, result in measured:
        for target in workload.targets:
            found = ratio(result.get("rounds", {}), target)
            if found is not None:
                rows.append((workload, target, found))
    return rows


def _targets(measured: list[tuple[Workload, dict[str, Any]]]) -> str:
    lines = [
        "| work | against | target | wall | CPU | quiet rounds | reached |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for workload, target, found in rows_of(measured):
        rival = target.rival + (f" (less {target.less.split(', ')[-1]})" if target.less else "")
        cpu = f"{_times_text(found.cpu)}" if target.cpu else ""
        by_cpu = target.cpu and not found.calm
        reached = ("yes" if found.judged(by_cpu=target.cpu) >= target.factor else "no") + (", by CPU" if by_cpu else "")
        lines.append(
            f"| {workload.title} | {rival} | {_times_text(target.factor)} | {_times_text(found.wall)} | {cpu} "
            f"| {found.quiet} of {found.rounds} | {reached} |"
        )
    note = "How many times as long the other took; against a limit, which share of it was reached (CPU the same way)."
    return "\n".join([*lines, "", note, ""])


def _times_text(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _times(workload: Workload, result: dict[str, Any]) -> str:
    unit = workload.unit.removesuffix("s")
    lines = [
        f"| | {workload.unit} a second | CPU a {unit} | quiet rounds | results |",
        "| --- | --- | --- | --- | --- |",
    ]
    agreement = result.get("agreement", {})
    notes = []
    for label, rounds in sorted(result["rounds"].items(), key=lambda item: _speed(item[1])):
        compared = _agreement_text(agreement.get(label), workload)
        if "error" in rounds[0]:
            lines.append(f"| {label} | failed: {_cell(rounds[0]['error'])} | | | |")
            continue
        told = figure(rounds)
        lines.append(
            f"| {label} | {told.per_second:,.{0 if told.per_second >= 100 else 1}f} | {_small(told.cpu_seconds)} "
            f"| {told.quiet} of {told.rounds} | {compared} |"
        )
        facts = rounds[-1].get("facts", {})
        if "scheduler_share" in facts:
            start = facts.get("seconds_with_start", 0) - rounds[-1]["seconds"]
            left_out = f", {start:.1f} s to start and end left out" if start > 0 else ""
            notes.append(f"{label}: scheduler share {100 * facts['scheduler_share']:.2f} %{left_out}.")
    return "\n".join([*lines, "", *([" ".join(notes), ""] if notes else [])])


def _speed(rounds: list[dict[str, Any]]) -> float:
    return math.inf if "error" in rounds[0] else figure(rounds).seconds


def _small(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e9:.1f} ns"


def _agreement_text(told: dict[str, Any] | None, workload: Workload) -> str:
    if told is None:
        return ""
    if "error" in told:
        return f"failed: {_cell(told['error'])}"
    if told.get("reference"):
        return "the others are compared with these"
    if told["identical"] == told["num_frames"] == told["num_expected"]:
        return "the same, bit for bit"
    counts = (
        "" if told["num_frames"] == told["num_expected"] else f"{told['num_frames']} of {told['num_expected']} frames; "
    )
    where = " at the ends" if told["ends"] else ""
    if workload.dtype != "u1":
        return f"{counts}largest difference {told['largest']:.1e}"
    psnr = f", PSNR {told['psnr']:.1f} dB" if told["psnr"] is not None else ""
    return f"{counts}{100 * told['differing']:.1f} % of samples differ{where}, by at most {told['largest']:.0f}{psnr}"


def _quality(workload: Workload, result: dict[str, Any]) -> str:
    """Say how good the encoded files are at their size, beside the rival's at equal size."""
    points, lines = {}, ["| | bytes | PSNR to the exact result |", "| --- | --- | --- |"]
    for label, told in result["agreement"].items():
        if "facts" in told and told.get("psnr") is not None:
            points[label] = (told["facts"]["bytes"], told["psnr"])
            lines.append(f"| {label} | {points[label][0]:,} | {points[label][1]:.2f} dB |")
    ours = points.get(workload.targets[0].ours)
    theirs = [point for label, point in points.items() if label.startswith("ffmpeg")]
    if ours is None or len(theirs) < 2:
        return ""
    gain = ours[1] - psnr_at(ours[0], theirs)
    return "\n".join(
        [*lines, "", f"At equal size ours is {abs(gain):.2f} dB {'better' if gain >= 0 else 'worse'}.", ""]
    )


def _memory(result: dict[str, Any]) -> str:
    lines = ["| | peak | planned for frames | seconds |", "| --- | --- | --- | --- |"]
    told = []
    for label, rounds in result["rounds"].items():
        whole = [r for r in rounds if "error" not in r]
        if not whole:
            told.append((math.inf, f"| {label} | failed: {_cell(rounds[0]['error'])} | | |"))
            continue
        peak = max(r["peak_bytes"] for r in whole)
        planned = whole[-1].get("facts", {}).get("planned_bytes")
        text = f"{planned / 1e6:,.0f} MB" if planned else ""
        seconds = sorted(r["seconds"] for r in whole)[len(whole) // 2]
        told.append((peak, f"| {label} | {peak / 1e6:,.0f} MB | {text} | {seconds:.1f} |"))
    note = (
        "Proportional set size of the process and its children, read every 50 ms in a process started anew each time: the "
        "interpreter, libraries and the decoder are in it."
    )
    return "\n".join([*lines, *(line for _, line in sorted(told)), "", note, ""])


def _positions(positions: list[tuple[Workload, dict[str, Any]]]) -> str:
    columns = [w.title.rpartition(": ")[2] for w, _ in positions]
    labels = list(dict.fromkeys(label for w, r in positions for label in r["agreement"] if label != w.reference))
    lines = [f"| wrong frames | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for label in labels:
        cells = [_position_cell(result["agreement"].get(label)) for _, result in positions]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    note = (
        "Every seventh frame is asked for by its position and compared with the one at that position in a decode from the "
        "start (mean absolute difference over 2 of 255 levels: another picture). Missing frames count as wrong."
    )
    return "\n".join([*lines, "", note, ""])


def _position_cell(told: dict[str, Any] | None) -> str:
    if told is None:
        return ""
    if "error" in told:
        return _cell(told["error"].removeprefix("RuntimeError: ").rstrip("."))
    surplus = told["num_frames"] - told["num_expected"]
    beyond = f", {surplus} beyond the end" if surplus > 0 else ""
    return f"{told['wrong']} of {told['compared']}{beyond}"


LIVE_OPERATORS = {
    "classifier": "EfficientNet-Lite0 on ONNX Runtime, some 12 ms a frame",
    "level": "the mean of each frame, some 10 us",
}


def _live_model(result: dict[str, Any]) -> str:
    """Say what packing brings a heavy and a light operator, and how near the latency calculator comes."""
    others = result["other_cores"]
    quiet = "a quiet machine" if others < QUIET_CORES else f"a busy machine: other processes used {others:.1f} cores"
    lines = [
        (
            f"`benchmarks/bench_live_model.py`, pictures of 320x240, on {quiet}; medians of {result['rounds']} rounds. Flat out for "
            "throughput, CPU and memory; at 30 frames a second for the time from the first frame of a hyperframe to its result. "
            "`budget` was told how long the operator takes at sizes 1 and 16, and how long a hyperframe of 1 is on its way besides.\n"
        ),
        "| operator | size | frames a second | CPU a frame | peak | first frame to result | foretold by `budget` |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, told in result["operators"].items():
        for size, one in told["sizes"].items():
            answer = told["budget"]["sizes"][size]
            lines.append(
                f"| {name} | {size} | {one['frames_per_second']:,.0f} | {one['cpu_ms_per_frame']:.2f} ms "
                f"| {one['peak_memory_mb']:,.0f} MB | {answer['measured_ms']:,.1f} ms "
                f"| {answer['foretold_ms']:,.1f} ms ({100 * answer['off']:+.0f} %) |"
            )
    note = "; ".join(f"{name}: {LIVE_OPERATORS[name]}" for name in result["operators"])
    helps = (
        "Packing shares what is paid for every hyperframe, so it helps the light operator; the network is limited by its own "
        "arithmetic, and larger inputs leave the cache: there it only adds waiting."
    )
    return "\n".join([*lines, "", f"{note}. {helps}", ""])


def _live_push(result: dict[str, Any]) -> list[str]:
    """Say what it costs to bring frames through a live run, beside a plain copy and the usual design."""
    others = result["other_cores"]
    quiet = "a quiet machine" if others < QUIET_CORES else f"a busy machine: other processes used {others:.1f} cores"
    core = [row for row in result["rows"] if row.get("mode") == "core"]
    beside = "; ".join(f"{row['what'].removeprefix('live ')}: {row['cpu_us_per_frame']:.1f} us a frame" for row in core)
    lines = [
        (
            f"`benchmarks/bench_live_push.py`, 48 threads that push 4:2:0 pictures; ledger, journal and an instrument are on; on "
            f"{quiet}; medians of {result['rounds']} rounds, commit {result['versions']['hyperframes']['commit']}. Paced: each at 30 "
            "frames a second; processor time is that of the whole process, producers and copies included. Without copies and "
            f"threads, under virtual time: {beside}.\n"
        ),
        "| pictures | | frames a second | of one thread's copies | CPU a frame | last frame to result, p50 / p99 | dropped |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    limits = {row["size"]: row["frames_per_second"] for row in result["rows"] if row["what"] == "copy"}
    for row in result["rows"]:
        if "mode" not in row or row["mode"] == "core":
            continue
        share = f"{100 * row['frames_per_second'] / limits[row['size']]:.0f} %" if row["mode"] == "unpaced" else ""
        late = row.get("last_to_result_ms", {})
        ms = f"{late['p50']:,.1f} / {late['p99']:,.1f} ms" if "p99" in late and row["mode"] == "paced" else ""
        lines.append(
            f"| {row['size']} | {row['what']}, {row['mode']} | {row['frames_per_second']:,.0f} | {share} "
            f"| {row['cpu_us_per_frame']:,.0f} us | {ms} | {_reasons(row.get('dropped', {}))} |"
        )
    return ["## Live: pushed frames\n", "\n".join([*lines, ""])]


def _live_cameras(result: dict[str, Any]) -> list[str]:
    """Say what becomes of the frames of many real cameras, and of the others' when one freezes."""
    lines = [
        (
            "`benchmarks/bench_cameras.py`, H.264 at 30 frames a second from a local server, which shares the machine's cores; "
            "each contender is a process of its own. `capture` decodes and copies only; the age is counted from the camera's "
            "clock for `capture` and `live`, from the read for others; `live` packs all cameras into one hyperframe, with ledger, "
            f"journal and metrics, and calls back for every frame. Commit {result['versions']['hyperframes']['commit']}.\n"
        ),
        (
            "| cameras | | all stream after | frames a second | slowest camera | CPU a frame | peak | age p50 / p99 | dropped "
            "| one frozen: frames a second | age p50 / p99 | told after | back after |"
        ),
        "| --- " * 13 + "|",
    ]
    for size, told in result["sizes"].items():
        for name, one in told["contenders"].items():
            good, bad, frozen = one["healthy"], one["one_frozen"], one["frozen"]
            lines.append(
                f"| {told['cameras']} x {size} | {name} | {one['start_seconds']:.1f} s | {good['frames_per_second']:,.0f} "
                f"| {good['slowest']:.1f} | {good['cpu_us_a_frame']:,.0f} us | {one['rss_mb']:,.0f} MB | {_ages(good)} "
                f"| {_reasons(good['dropped'])} | {_figure(bad.get('frames_per_second'), ',.0f')} | {_ages(bad)} "
                f"| {_figure(frozen['told_after_seconds'], '.1f', ' s')} | {_figure(frozen['back_after_seconds'], '.1f', ' s')} |"
            )
    scrapes = [
        f"{told['cameras']} x {size}: {one['scrape_ms']:.1f} ms"
        for size, told in result["sizes"].items()
        for one in told["contenders"].values()
        if "scrape_ms" in one
    ]
    lines += ["", f"Processor time of a scrape of the metrics meanwhile: {', '.join(scrapes)}."] if scrapes else []
    return ["## Live: RTSP cameras\n", "\n".join([*lines, ""])]


def _scrape(result: dict[str, Any]) -> list[str]:
    """Say what a scrape of the metrics costs, by how many sources a run has."""
    others = result["other_cores"]
    quiet = "a quiet machine" if others < QUIET_CORES else f"a busy machine: other processes used {others:.1f} cores"
    begin = (
        "`benchmarks/bench_scrape.py`, processor time of a scrape of a live run with journal and console, on "
        f"{quiet}; medians of {result['rounds']} rounds, commit {result['versions']['hyperframes']['commit']}. To count and write "
        "the text holds the interpreter's lock; over HTTP all threads of the process count. prometheus_client only writes the same "
        "families, already counted.\n"
    )
    rows = [
        [
            sources,
            f"{told['lines']:,.0f}",
            f"{told['bytes'] / 1024:,.0f} KiB",
            *(f"{told[what]:.1f} ms" for what in ("text_ms", "http_ms", "prometheus_client_ms")),
        ]
        for sources, told in result["sources"].items()
    ]
    head = ["sources", "lines", "text", "counted and written", "over HTTP", "written by prometheus_client"]
    return ["## Live: a scrape of the metrics\n", begin, _table(head, rows)]


def _live_latency(result: dict[str, Any]) -> list[str]:
    """Say how long hyperframes take beside the operator's time and an ideal server, within a budget, and in overload."""
    rows = {row["what"]: row for row in result["rows"]}
    lines = [
        (
            "`benchmarks/bench_live_latency.py`: the operator waits as for a device, so what stands beside its time is the run's own. "
            "The ideal server takes the recorded hyperframes in the order of their seals and without any overhead. "
            f"Commit {result['versions']['hyperframes']['commit']}; other processes used {result['other_cores']:.1f} cores.\n"
        ),
        "| | hyperframes | operator | seal to result, p50 / p99 | ideal, p50 / p99 | the run's own, p50 / p99 | kept | dropped |",
        "| --- " * 8 + "|",
    ]
    for what, row in rows.items():
        if "result_ms" not in row:
            continue
        kept = f"{100 * row['kept']:.2f} % of 500 ms" if "kept" in row else ""
        lines.append(
            f"| {what} | {row['hyperframes']:,} | {row['operator_ms']:.1f} ms | {_pair(row['result_ms'])} | {_pair(row['ideal_ms'])} "
            f"| {_pair(row['own_ms'])} | {kept} | {_reasons(row['dropped'])} |"
        )
    lines += [
        "",
        "| | seconds | first frame to result, p50 / p99 / longest | memory grown | queue empty after | last drop after | dropped |",
        "| --- " * 7 + "|",
    ]
    for what, row in rows.items():
        if "memory_grown_mb" in row:
            total = " / ".join(f"{ms:,.0f}" for ms in row["total_ms"])
            lines.append(
                f"| {what} | {row['seconds']:.0f} | {total} ms | {row['memory_grown_mb']:.1f} MB | {row['queue_empty_after_s']:.2f} s "
                f"| {row['last_drop_after_s']:.2f} s | {_reasons(row['dropped'])} |"
            )
    return ["## Live: latency\n", "\n".join([*lines, ""])]


def _pair(ms: list[float]) -> str:
    return f"{ms[0]:.1f} / {ms[1]:.1f} ms"


def _figure(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else format(value, form) + unit


def _ages(told: dict[str, Any]) -> str:
    ages = told.get("age_ms")
    return f"{ages[0]:,.0f} / {ages[1]:,.0f} ms" if ages else ""


def _reasons(dropped: dict[str, float]) -> str:
    return ", ".join(f"{count:,.0f} {reason}" for reason, count in sorted(dropped.items()) if count) or "none"


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return escape(text if len(text) <= 100 else text[:97] + "...")


def _versions(measured: list[tuple[Workload, dict[str, Any]]]) -> str:
    found: dict[str, dict[str, set[str]]] = {}
    for _, result in measured:
        for name, packages in result["versions"].items():
            for package, version in packages.items():
                found.setdefault(name, {}).setdefault(package, set()).add(version)
    lines = ["| contestant | versions |", "| --- | --- |"]
    for name, packages in found.items():
        text = ", ".join(f"{package} {' / '.join(sorted(versions))}" for package, versions in packages.items())
        lines.append(f"| {name} | {text} |")
    return "\n".join([*lines, ""])


# Sections of other scripts --------------------------------------------------------------------------------------------


def _table(head: list[str], rows: list[list[Any]]) -> str:
    cells = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n"


def _anchors(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_anchors.py found."""
    films, columns = told["transitions"], ("precision", "recall", "f1")
    found = films["mean"]
    begin = (
        f"Transitions of {films['films']} films spliced of real clips (cuts, fades through black, and flashes, which are none), "
        f"within two frames; {films['flashes_found']} of {films['flashes']} flashes were called so:\n"
    )
    parts = [
        "## Anchors\n",
        begin,
        _table(["", *columns], [[name, *(row[c] for c in columns)] for name, row in found.items()]),
        "Which frames to look at, over labelled recordings; one, two and four frames an event, means:\n",
    ]
    columns = ("precision", "coverage", "balance")
    parts.append(_table(["", *columns], [[n, *(r[c] for c in columns)] for n, r in told["selection"]["mean"].items()]))
    parts += _needed(told["needed"])
    for name, works in told.get("speed", {}).items():
        parts.append(f"Speed over `{name}`, {works['frames']} frames:\n")
        rows = [
            [work, round(t["frames_per_second"]), t["cpu_ms_a_frame"], t["cpu_over_decode"]]
            for work, t in works.items()
            if work != "frames"
        ]
        parts.append(_table(["", "frames a second", "CPU ms a frame", "CPU over decoding"], rows))
    return parts


def _needed(told: dict[str, Any]) -> list[str]:
    """Return how accuracy grows with the frames that are looked at."""
    begin = (
        f"Accuracy of a nearest neighbour of persons' poses in other recordings, by the frames that it sees of a clip: {told['clips']} clips of "
        f"{told['recordings']} recordings; even steps are the mean over eight places to begin; in brackets 95 % intervals over recordings:\n"
    )
    counts = list(told["accuracy"]["uniform"])
    rows = [
        [
            way,
            *(f"{curve[n]:.2f} ({told['interval'][way][n][0]:.2f}-{told['interval'][way][n][1]:.2f})" for n in counts),
        ]
        for way, curve in told["accuracy"].items()
    ]
    low, high = told["mean_gain_interval"]
    first, held = told["first_reached_with"]["anchors"], told["held_from"]["anchors"]
    end = (
        f"Over all numbers of frames, anchors gain {told['mean_gain']:+.3f} ({low:+.3f} to {high:+.3f}). The {told['accuracy_of_most']:.2f} that even "
        f"steps reach with {counts[-1]} frames, anchors first reach with {first or 'no number of'}, and exceed at every number from "
        f"{held or 'no number'} on: differences of single numbers are within the noise.\n"
    )
    return [begin, _table(["frames", *counts], rows), end]


def _descriptors(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_descriptors.py found."""
    parts = ["## Descriptors\n"]
    if "describe" in told:
        d = told["describe"]
        parts.append(
            f"Describing a film of 1920 x 1080 ({d['frames']} frames, with {', '.join(d['models']) or 'no models'}) takes "
            f"{d['cpu_ms_a_frame']:.1f} ms of CPU a frame, where two cores have 66.7 ms for each frame of 30 a second; "
            f"{d['frames_per_second']:.1f} frames a second by the clock on the machine as it was. Resident memory is "
            f"{d['rss_after_a_third_bytes'] / 1e6:,.0f} MB after a third of it and {d['rss_at_the_end_bytes'] / 1e6:,.0f} MB at "
            "the end.\n"
        )
    if "sync" in told:
        d = told["sync"]
        parts.append(
            f"Sound against picture: of {d['estimates_asked_for']} lags of {d['clear']} films of real scenes with clear onsets, as "
            f"they are and with the sound moved, {100 * d['within_a_frame']:.0f} % are told to within a frame (the worst is off by "
            f"{d['worst_seconds']:.3f} s). Of {d['real']} real files in which sound does not show, "
            f"{len(d['real_with_an_estimate'])} got an estimate.\n"
        )
    if "patches" in told:
        parts.append("An operator on the squares that matter, their choice included, beside whole pictures:\n")
        head = ["operator", "squares chosen", "whole, CPU ms", "choosing", "choosing and patches"]
        rows = [[d["operator"], d["share_of_squares"], *d["cpu_ms_a_frame"].values()] for d in told["patches"]]
        parts.append(_table(head, rows))
    if "motion_vectors" in told:
        parts.append("Motion vectors of the codec beside activity on small luma, CPU over plain decoding:\n")
        works = ("exported", "exported and read", "luma activity")
        rows = [[d["file"], *(d[w]["over_decode"] for w in works)] for d in told["motion_vectors"]]
        parts.append(_table(["", *works], rows))
    return parts


def _copies(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_copies.py found."""
    begin = (
        f"{told['cuts']} cuts of {told['seconds']:.0f} seconds from real videos, each made over in five ways by ffmpeg, looked for with "
        f"`search --like CUT@MIDDLE` among {told['spans']} spans of {told['videos']} videos ({told['video_seconds'] / 60:.0f} minutes): the share "
        "of first hits of the right source, and of those that also tell the instant within half a second.\n"
    )
    rows = [[way, *(float(row[name]) for name in ("source", "right"))] for way, row in told["ways"].items()]
    rows.append(["all", statistics.fmean(row["source"] for row in told["ways"].values()), float(told["right"])])
    wrong = ", ".join(sorted({f"`{row['video']}` at {row['at']:.1f} s" for row in told["wrong"]})) or "none"
    end = (
        f"The median error is {told['median_error_seconds']:.2f} s; a search takes {told['median_search_seconds']:.2f} s, describing the cut "
        f"included. Missed: {wrong}. Of {told['unknown_cuts']} cuts of videos that are not there, {told['unknown_called_copies']} were called "
        "copies"
    )
    taken = "; ".join(dict.fromkeys(f"`{row['video']}` of `{row['found']}`" for row in told.get("unknown", ())))
    end += f": {taken}.\n" if taken else ".\n"
    return ["## Copies\n", begin, _table(["", "source", "instant"], rows), end]


def _tasks(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_tasks.py found."""
    begin = (
        "Test clips of a kind look for the training clips of their kind: mean average precision by all features, by a projection that is "
        "guessed from the task's text by the closed-form generator with this task left out, and by one fitted to the training clips. "
        "The last column is how alike guess and fitted projection are.\n"
    )
    names = ("chance", "features", "guessed", "fitted", "guess_cosine")
    rows = [[task, *(row[name] for name in names)] for task, row in {**told["tasks"], "mean": told["mean"]}.items()]
    return ["## Tasks\n", begin, _table(["", "chance", "features", "guessed", "fitted", "cosine"], rows)]


def _search(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_search.py found."""
    parts = ["## Search\n"]
    if "exact" in told:
        d = told["exact"]
        ratios = d["ours_over_faiss"]
        parts.append(
            f"Exact search over {d['rows']:,} x 512 takes {ratios['single']:.2f} times what the flat index of faiss {d['faiss_version']} takes for "
            f"one query at a time, {ratios['many']:.2f} times for many at once ({1e3 * d['ours_single']:.1f} ms and "
            f"{1e3 * d['ours_many']:.2f} ms a query).\n"
        )
    if "intake" in told:
        d = told["intake"]
        parts.append(
            f"A dataset takes in {d['per_second']:,.0f} descriptors a second ({d['descriptors']:,} at a time).\n"
        )
    if "large" in told:
        d = told["large"]
        parts.append(
            f"{d['num_descriptors']:,} spans of {d['windows']:,} windows of {d['clips']} clips made over, encoded anew, cropped or retimed: "
            f"the vector index is built in {d['build_seconds']:.0f} s and answers in {1e3 * d['index_seconds']:.1f} ms "
            f"({1e3 * d['index_seconds_of_many']:.1f} ms a question where many are asked at once), "
            f"{d['times_as_fast']:.0f} times as fast as comparing with every vector ({1e3 * d['exact_seconds']:.0f} ms); recall at 10 is "
            f"{d['recall_at_10']:.3f} over {d['num_queries']:,} questions of {d['clips_asked_for']} clips made over in a way that none in it was; what is as alike as the "
            f"last of the ten exact ones, to five digits, counts.\n"
        )
    return parts


def _neural(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_neural.py found: answers, blocks, and memory in training."""
    parts = []
    if "answers" in told:
        answers = told["answers"]["values"]
        models = list(next(iter(answers.values()))["ms"])
        parts += [
            "## What an answer of a classifier costs\n",
            (
                f"One clip at a time, CPU of one thread, classifiers of 86,000 parameters made to answer only, medians of "
                f"{told['answers']['rounds']} rounds in turn; wanted of mch: at most 63 % of the 3-D network. Small clips cost it "
                "mostly calls, of which it has many; what pixels cost shows in large ones.\n"
            ),
            _table(
                ["", *models, *(f"mch takes of {name}" for name in models if name != "mch")],
                [
                    [
                        clips,
                        *(f"{ms:.1f} ms" for ms in one["ms"].values()),
                        *(f"{100 * s:.0f} %" for s in one["share"].values()),
                    ]
                    for clips, one in answers.items()
                ],
            ),
        ]
    if "blocks" in told:
        blocks = told["blocks"]
        parts += [
            "## Hyperframe blocks beside 3-D residual blocks\n",
            (
                f"Two blocks of HDSConv against the residual block of two 3 x 3 x 3 convolutions, CPU of one thread, medians of "
                f"{blocks['rounds']} rounds in turn; wanted: 8 times at equal width, 1.5 times at equal parameters. What the "
                "exchange does to accuracy stands with the parts changed above.\n"
            ),
        ]
        rows = []
        for shape, one in blocks["values"].items():
            for kind in ("forward", "training step"):
                ms, times = one[kind]["ms"], one[kind]["times"]
                rows.append([shape, kind, *(f"{ms[name]:.1f} ms" for name in ms), *(float(v) for v in times.values())])
        head = [
            "tensor",
            "",
            "HDSConv",
            "equal width",
            "equal parameters",
            "times as long at equal width",
            "at equal parameters",
        ]
        parts.append(_table(head, rows))
    if "memory" in told:
        parts += [
            "## Memory in training\n",
            (
                "Three steps of AdamW in a fresh process, classifiers of 86,000 parameters; the peak of the process, and what of it came "
                "after network and batch were made; wanted: at most half of what networks of frames need.\n"
            ),
        ]
        rows = []
        for shape, models in told["memory"]["values"].items():
            ours = models["mch"]["training_bytes"]
            for model, one in models.items():
                share = "" if model == "mch" else f"{100 * ours / one['training_bytes']:.0f} %"
                rows.append(
                    [
                        shape,
                        model,
                        f"{one['peak_bytes'] / 1e6:,.0f} MB",
                        f"{one['training_bytes'] / 1e6:,.0f} MB",
                        share,
                    ]
                )
        parts.append(_table(["batch", "", "peak", "of training", "share that mch needs"], rows))
    return parts


def _events(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_events.py found."""
    rows = []
    for form, recordings in told["values"].items():
        for what, one in recordings.items():
            for name, peer in one["packages"].items():
                same = "yes" if peer["same_events"] else f"no, {peer['events']:,} events"
                speed, times = (
                    f"{peer['million_events_per_second']:.1f}",
                    "" if name == "hyperframes" else peer["times"],
                )
                rows.append([f"{form}, {what}, {one['events']:,} events", name, speed, times, same])
    versions = {}
    for recordings in told["values"].values():
        for one in recordings.values():
            for peer in one["packages"].values():
                versions |= peer["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return [
        "## Recordings of event cameras\n",
        (
            f"Opening, reading and decoding a whole recording into arrays, in million events a second of CPU, one thread; medians of "
            f"{told['rounds']} rounds in turn; {listed}.\n"
        ),
        _table(["recording", "", "million events a second", "times as long as ours", "the same events"], rows),
    ]


def _policies(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_policies.py found."""
    begin = (
        f"{told['hyperframes']} hyperframes, of which {told['heavy']} take {told['heavy_seconds'] * 1e3:.1f} ms and the others "
        f"{told['light_seconds'] * 1e3:.1f} ms, measured and replayed on {told['workers']} workers; milliseconds until the end, from the "
        "first worker that finds nothing to do to the end, and until the first output. `python -m pytest benchmarks/bench_policies.py "
        "--benchmark-enable --benchmark-only`\n"
    )
    rows = [
        [stages, policy, *(f"{found[name] * 1e3:.1f}" for name in ("end", "tail", "first_output"))]
        for stages, policies in told["policies"].items()
        for policy, found in policies.items()
    ]
    return [
        "## Scheduling policies on uneven content\n",
        begin,
        _table(["", "policy", "end", "tail", "first output"], rows),
    ]


def _processes(told: dict[str, Any]) -> list[str]:
    """Return what benchmarks/bench_processes.py found."""
    begin = (
        "An operator in plain Python, which holds the interpreter's lock, over 320x180: frames a second while workers work, start left "
        "out, and CPU time of all processes, start included; medians. Two processes are "
        f"{told['two_processes_against_one']:.2f} times as fast as one (target 1.8). `python -m pytest benchmarks/bench_processes.py "
        "--benchmark-enable --benchmark-only`\n"
    )
    rows = [
        [
            name,
            f"{statistics.median(run['done'] / run['seconds'] for run in runs):.1f}",
            f"{statistics.median(run['cpu_seconds'] / run['done'] for run in runs) * 1e3:.2f} ms",
        ]
        for name, runs in told["rounds"].items()
    ]
    return [
        "## An operator that holds Python's lock\n",
        begin,
        _table(["workers", "frames a second", "CPU a frame"], rows),
    ]


SECTIONS = {
    "neural": _neural,
    "events": _events,
    "anchors": _anchors,
    "copies": _copies,
    "descriptors": _descriptors,
    "live_push": _live_push,
    "live_cameras": _live_cameras,
    "live_latency": _live_latency,
    "scrape": _scrape,
    "search": _search,
    "policies": _policies,
    "processes": _processes,
    "tasks": _tasks,
}
"""What other scripts than the runner of rivals left, by the name of the file."""


# Chart ----------------------------------------------------------------------------------------------------------------

LEFT, WIDTH, ROW, BAR = 380, 860, 22, 12


def chart(results: dict[str, dict[str, Any]]) -> str:
    """Return a picture of the targets: a bar for each measured ratio on a logarithmic scale, a mark for the target."""
    rows = [row for row in rows_of([(w, results[w.name]) for w in ALL if w.name in results]) if row[1].factor != 1]
    values = [v for _, target, found in rows for v in (target.factor, found.judged(by_cpu=target.cpu))]
    low, high = 0.5, max([10.0, *values]) * 1.6
    height = ROW * len(rows) + 40

    def x(value: float) -> float:
        span = math.log(max(value, low) / low) / math.log(high / low)
        return round(LEFT + (WIDTH - LEFT - 20) * span, 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        '  role="img" aria-label="how many times as fast as others, against the targets"',
        '  font-family="system-ui, sans-serif" font-size="12">',
        "  <style>",
        "    .text { fill: #777; } .bar { fill: #2f7ed8; } .short { fill: #e07b2c; }",
        "    .target { stroke: #777; stroke-width: 2; } .grid { stroke: #8884; }",
        "  </style>",
    ]
    for value in (value for value in (1, 2, 5, 10, 20, 50, 100, 200, 500) if value < high):
        lines.append(f'  <path class="grid" d="M{x(value)} 8V{height - 28}"/>')
        lines.append(f'  <text class="text" x="{x(value)}" y="{height - 12}" text-anchor="middle">{value}x</text>')
    for number, (workload, target, found) in enumerate(rows):
        y = 10 + ROW * number
        value = found.judged(by_cpu=target.cpu)
        kind = "bar" if value >= target.factor else "short"
        name = escape(f"{workload.title}: {target.rival}")
        if len(name) > 62:
            name = escape(f"{workload.title.split(',')[0][:40]}: {target.rival}")
        lines.append(f'  <text class="text" x="{LEFT - 8}" y="{y + 10}" text-anchor="end">{name}</text>')
        width = round(max(1.0, x(value) - x(low)), 1)
        lines.append(f'  <rect class="{kind}" x="{x(low)}" y="{y}" width="{width}" height="{BAR}" rx="2"/>')
        lines.append(f'  <path class="target" d="M{x(target.factor)} {y - 3}v{BAR + 6}"/>')
        at = max(x(value), x(target.factor)) + 6
        lines.append(f'  <text class="text" x="{at}" y="{y + 10}">{_times_text(value)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


# Files ----------------------------------------------------------------------------------------------------------------


def read(root: Path) -> dict[str, dict[str, Any]]:
    """Return the results by workload."""
    names = (*(w.name for w in ALL), "live_model", *SECTIONS)
    files = {name: root / RESULTS / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items() if path.exists()}


def read_learned(root: Path) -> list[dict[str, Any]]:
    """Return the results of benchmarks/bench_learned.py, by name."""
    return [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((root / RESULTS / "learned").glob("*.json"))
    ]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page and its chart; return the exit code."""
    results = read(root)
    for target, text in ((root / PAGE, page(results, read_learned(root))), (root / CHART, chart(results))):
        if "--check" not in arguments:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"error: {target.relative_to(root)} is not what the results say: make docs\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
