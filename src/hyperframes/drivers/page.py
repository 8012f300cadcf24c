"""The report as one HTML page: inline SVG and CSS only, no script, no network, light and dark as the reader prefers."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.quantity import bytes_text, count_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["document", "page"]

WIDTH = 1080
"""Units across a drawing; it scales with the page."""
LEFT, RIGHT = 84, 16
NUM_COLOURS = 8
SHOWN_ROWS = 50
"""Rows of long tables on the page; the JSON report has all."""


def page(content: dict[str, Any]) -> str:
    """Return the page that tells `content`, the dict of `Report.to_json`."""
    colours = {entry["stage"]: number % NUM_COLOURS for number, entry in enumerate(content["durations"])}
    sections = [
        _notices(content),
        _tiles(content),
        _section("Timeline", _timeline_note(content), _timeline(content, colours)),
        _section("How long hyperframes took", _durations_note(content), _histograms(content, colours)),
        _outlier_table(content),
        _section("Where the workers' time went", _SHARES_NOTE, _time_shares(content, colours)),
        _section("Throughput over time", _throughput_note(content), _rates(content)),
        _section("Memory over time", _memory_note(content), _area(content["memory"], "bytes", _span(content), 2)),
        _section("What ran", "", _what_ran(content)),
    ]
    title = _title(content)
    return document(f"{title} - Hyperframes report", _header(content, title), "\n".join(sections))


def document(title: str, header: str, body: str) -> str:
    """Return a whole page in the look of all our pages: `title` is text, `header` and `body` are HTML."""
    return _PAGE.format(title=escape(title), style=_STYLE, header=header, body=body)


# Text -----------------------------------------------------------------------------------------------------------------


def _title(content: dict[str, Any]) -> str:
    what = content["what"]
    name: str = what["sources"][0]["name"] if what else content["id"]
    return name.rpartition("/")[2]


def _header(content: dict[str, Any], title: str) -> str:
    what, output = content["what"], content["run"]["output"]
    steps = [title]
    if what:
        steps += [stage["operator"] for stage in what["stages"] if not stage["planned"]]
    outputs = [output] if isinstance(output, str) else output or ["memory"]
    steps.append(", ".join(name.rpartition("/")[2] for name in outputs))
    flow = '<span class="arrow">&rarr;</span>'.join(f"<code>{escape(step)}</code>" for step in steps)
    return (
        f'<p class="eyebrow">Hyperframes report</p><h1>{flow}</h1>'
        f'<p class="quiet">run {escape(content["id"])}, {escape(content["created"].replace("T", " "))}</p>'
    )


def _section(heading: str, note: str, drawing: str) -> str:
    if not drawing:
        return ""
    said = f'<p class="quiet">{note}</p>' if note else ""
    return f"<section><h2>{heading}</h2>{said}{drawing}</section>"


def _notices(content: dict[str, Any]) -> str:
    failed = [f"frames {f['frames'][0]} to {f['frames'][1] - 1} failed: {f['error']}" for f in content["failed"]]
    warnings = [*filter(None, [content["scheduler"]["warning"]]), *content["warnings"]]
    parts = []
    for kind, heading, lines in (("bad", "Failed", failed), ("warn", "Warnings", warnings)):
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines[:SHOWN_ROWS])
            more = f"<li>and {len(lines) - SHOWN_ROWS:,} more</li>" if len(lines) > SHOWN_ROWS else ""
            parts.append(
                f'<section class="notice {kind}"><h2>{heading} ({len(lines):,})</h2><ul>{items}{more}</ul></section>'
            )
    return "".join(parts)


def _tiles(content: dict[str, Any]) -> str:
    run = content["run"]
    halo, share = run["halo"], content["scheduler"]["share"]
    tiles = [
        (
            number_text(run["frames_per_second"]),
            "frames a second",
            f"{count_text(run['frames_in'], 'frame')} in {_s(run['seconds'])}",
        ),
        (
            f"{run['frames_out']:,}",
            "results delivered",
            f"{run['filtered']:,} filtered, {len(content['failed']):,} hyperframes failed",
        ),
        (
            f"{run['hyperframes']:,}",
            "hyperframes",
            f"of {_sizes_text(run)}, halo {halo['before']}&nbsp;+&nbsp;{halo['after']}",
        ),
        (f"{run['workers']:,}", "workers", f"{run['executor']}, {_busy_text(content)}"),
        (bytes_text(run["peak_memory_bytes"]), "peak memory", _planned_text(content)),
        (
            share_text(share),
            "scheduler share",
            "above the 10 % that is acceptable" if content["scheduler"]["warning"] else "of the workers' time",
        ),
    ]
    cells = "".join(
        f'<div class="tile"><p class="label">{label}</p><p class="value">{value}</p><p class="quiet">{detail}</p></div>'
        for value, label, detail in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _sizes_text(run: dict[str, Any]) -> str:
    """Return the size, or each with the frame from which on it was used."""
    text = count_text(run["size"], "frame")
    changes = [f"{change['size']:,} from frame {change['frame']:,}" for change in run["sizes"][1:]]
    return f"{run['sizes'][0]['size']:,}, {', '.join(changes)}" if changes else text


def _s(seconds: float) -> str:
    return seconds_text(seconds).replace(" us", " &micro;s").replace(" ", "&nbsp;")


def _busy_text(content: dict[str, Any]) -> str:
    shares = [worker["busy_share"] for worker in content["workers"]]
    return f"{share_text(sum(shares) / len(shares))} busy" if shares else "no work recorded"


def _planned_text(content: dict[str, Any]) -> str:
    what = content["what"]
    return f"{bytes_text(what['memory_bytes'])} of it planned for frames" if what else "of the whole process tree"


def _memory_note(content: dict[str, Any]) -> str:
    return (
        f"Proportional set size of the process and its children: at most {bytes_text(content['memory']['peak_bytes'])}."
    )


def _throughput_note(content: dict[str, Any]) -> str:
    step = _s(content["throughput"]["step_seconds"])
    return f"Frames a second that sinks had been given, in steps of {step}; hyperframes come out one at a time."


def _timeline_note(content: dict[str, Any]) -> str:
    stride = content["timeline"]["one_hyperframe_in"]
    shown = "" if stride == 1 else f" One hyperframe in {stride:,} is shown."
    return (
        "Each bar is one worker at one stage of one hyperframe; stages that run as one task share a bar, and a hyperframe "
        f"may be split, so that several workers have parts of it.{shown} Bars with a red edge took over twice the median "
        "of their stage. Point at a bar for its frames."
    )


_SHARES_NOTE = (
    "Scheduler share: deciding what runs next, and workers idle while a task was ready. Waiting for the source: nothing "
    "was sealed yet, as when decoding is slower than the operators. Waiting for sinks: all results that memory has room "
    "for were still being written, or a hyperframe had to wait for the one before; and the end, when only sinks work. The "
    "two are told apart by the gaps between a worker's tasks."
)


def _durations_note(content: dict[str, Any]) -> str:
    total = sum(entry["outliers"] for entry in content["durations"])
    return f"{count_text(total, 'task')} took over twice the median of {'its' if total == 1 else 'their'} stage."


# Drawings -------------------------------------------------------------------------------------------------------------


def _svg(height: float, body: str, label: str) -> str:
    return (
        f'<div class="chart"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg></div>'
    )


def _span(content: dict[str, Any]) -> float:
    """Return the seconds that all drawings over time show, so that one moment stands in one place in each."""
    ends = (task["begin_seconds"] + task["duration_seconds"] for task in content["timeline"]["tasks"])
    longest: float = max(content["run"]["seconds"], 1e-9, *ends)
    return longest


def _ticks(top: float, wanted: int = 6) -> list[float]:
    """Return round values from 0 up to `top`."""
    if top <= 0:
        return [0.0]
    rough = top / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [i * step for i in range(int(top / step * 1.0001) + 1)]


def _time_axis(seconds: float, y: float, top: float) -> str:
    scale = (WIDTH - LEFT - RIGHT) / max(seconds, 1e-9)
    parts = []
    for tick in _ticks(seconds, 8):
        x = LEFT + tick * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{_s(tick)}</text>')
    return "".join(parts)


def _legend(colours: dict[str, int]) -> str:
    keys = "".join(
        f'<span class="key"><i class="swatch b{number}"></i>{escape(stage)}</span>' for stage, number in colours.items()
    )
    return f'<p class="legend">{keys}</p>'


def _timeline(content: dict[str, Any], colours: dict[str, int]) -> str:
    tasks, workers = content["timeline"]["tasks"], [worker["worker"] for worker in content["workers"]]
    if not tasks:
        return ""
    medians = {entry["stage"]: entry["median_seconds"] for entry in content["durations"]}
    ratio = content["scheduler"]["outlier_ratio"]
    seconds = _span(content)
    scale, lane, bar = (WIDTH - LEFT - RIGHT) / seconds, 34, 22
    height = len(workers) * lane
    parts = [_time_axis(seconds, height + 4, 0)]
    for row, worker in enumerate(workers):
        y = row * lane + (lane - bar) / 2
        parts.append(f'<text class="lane" x="{LEFT - 10}" y="{y + 15:.1f}" text-anchor="end">worker {worker}</text>')
    rows = {worker: row for row, worker in enumerate(workers)}
    for task in tasks:
        x, y = LEFT + task["begin_seconds"] * scale, rows[task["worker"]] * lane + (lane - bar) / 2
        width = max(0.8, task["duration_seconds"] * scale - 0.6)
        late = " out" if task["duration_seconds"] > ratio * medians[task["stage"]] else ""
        parts.append(
            f'<rect class="f{colours[task["stage"]]}{late}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" '
            f'height="{bar}" rx="{min(3.0, width / 3):.1f}"><title>{_task_text(task)}</title></rect>'
        )
    return _legend(colours) + _svg(height + 28, "".join(parts), "hyperframes per worker over time")


def _task_text(task: dict[str, Any]) -> str:
    frames = "" if task["frames"] is None else f"frames {task['frames'][0]} to {task['frames'][1] - 1}, "
    return escape(f"{task['id']}: {frames}{task['stage']}, ") + _s(task["duration_seconds"])


def _histograms(content: dict[str, Any], colours: dict[str, int]) -> str:
    drawings = [_histogram(entry, colours[entry["stage"]]) for entry in content["durations"] if entry["count"]]
    return "".join(drawings)


def _histogram(entry: dict[str, Any], colour: int) -> str:
    histogram, median = entry["histogram"], entry["median_seconds"]
    counts, step, above = histogram["counts"], histogram["step_seconds"], histogram["above"]
    top, height, base = max(*counts, above, 1), 146, 178
    room = WIDTH - LEFT - RIGHT - 70  # the last 70 units are for what lies above
    each = room / len(counts)
    parts = ['<text class="tick" x="4" y="18">tasks</text>']
    for level in sorted({round(tick) for tick in _ticks(top, 3)}):
        y = base - level / top * height
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{level:,}</text>')
    for place, count in enumerate(counts):
        if count:
            late = " late" if (place + 0.5) * step > 2 * median else ""
            told = f"{count_text(count, 'task')} of {_s(place * step)} to {_s((place + 1) * step)}"
            parts.append(_bar(LEFT + place * each, each - 1.5, base, count / top * height, f"f{colour}{late}", told))
    if above:
        told = f"{count_text(above, 'task')} above {_s(len(counts) * step)}"
        parts.append(_bar(LEFT + room + 24, 40, base, above / top * height, f"f{colour} late", told))
        x = LEFT + room + 44
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}" text-anchor="middle">above</text>')
    for tick in _ticks(len(counts) * step, 6):
        x = LEFT + tick / step * each
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}" text-anchor="middle">{_s(tick)}</text>')
    for factor, name in ((1, "median"), (2, "2 x median")):
        x = LEFT + factor * median / step * each
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{x + 5:.1f}" y="18">{name} {_s(factor * median)}</text>')
    caption = (
        f"<h3>{escape(entry['stage'])}</h3><p class='quiet'>{count_text(entry['count'], 'task')}, "
        f"mean {_s(entry['mean_seconds'])}, 95 % within {_s(entry['p95_seconds'])}, "
        f"longest {_s(entry['max_seconds'])}</p>"
    )
    return caption + _svg(base + 24, "".join(parts), f"durations of {entry['stage']}")


def _bar(x: float, width: float, base: float, height: float, kind: str, told: str) -> str:
    height = max(1.0, height)
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{base - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="1.5"><title>{told}</title></rect>'
    )


def _time_shares(content: dict[str, Any], colours: dict[str, int]) -> str:
    run = content["run"]
    whole = run["workers"] * run["seconds"]
    if whole <= 0 or not content["durations"]:
        return ""
    shares = [(e["stage"], e["total_seconds"] / whole, f"f{colours[e['stage']]}") for e in content["durations"]]
    shares.append(("scheduler share", content["scheduler"]["share"], "scheduler"))
    used = sum(share for _, share, _ in shares)
    idle = max(0.0, 1 - used)
    source = idle * content["idle"]["source_share"]
    shares += [("waiting for the source", source, "source"), ("waiting for sinks", idle - source, "idle")]
    scale, x, bars, rows = (WIDTH - 2) / max(1.0, used), 0.0, [], []
    for name, share, kind in shares:
        width = share * scale
        told = f"{escape(name)}: {share_text(share)}, {_s(share * whole)}"
        if width > 0.3:
            bars.append(
                f'<rect class="{kind}" x="{x:.1f}" y="0" width="{max(0.5, width - 2):.1f}" height="30" rx="3">'
                f"<title>{told}</title></rect>"
            )
        x += width
        swatch = f"b{kind[1:]}" if kind.startswith("f") else f"b-{kind}"
        rows.append(
            f'<tr><td><i class="swatch {swatch}"></i>{escape(name)}</td><td class="number">{share_text(share)}</td>'
            f'<td class="number">{_s(share * whole)}</td></tr>'
        )
    bar = _svg(32, "".join(bars), "shares of the workers' time").replace('class="chart"', 'class="chart whole"')
    return bar + _table(("", "share", "time"), rows, numbers=(1, 2))


def _rates(content: dict[str, Any]) -> str:
    series = content["throughput"]
    return _area(series, "frames_per_second", _span(content), 5, unit="frames/s")


def _area(series: dict[str, Any], name: str, seconds: float, colour: int, unit: str = "") -> str:
    """Draw values over the `seconds` of the run, each for its step; gaps keep the value before them.

    Ticks are numbers of `unit`, or bytes with theirs.
    """
    known = [value for value in series[name] if value is not None]
    if len(series[name]) < 2 or not known:
        return ""
    values: list[float] = []
    for value in series[name]:
        values.append(value if value is not None else (values[-1] if values else known[0]))
    step, height, first = series["step_seconds"], 130, 20
    base = first + height
    top = max(*values, 1e-9) * 1.08
    scale = (WIDTH - LEFT - RIGHT) / seconds
    points = []
    for i, value in enumerate(values):
        begin, end = min(i * step, seconds), seconds if i == len(values) - 1 else min((i + 1) * step, seconds)
        y = base - value / top * height
        points += [f"{LEFT + begin * scale:.1f},{y:.1f}", f"{LEFT + end * scale:.1f},{y:.1f}"]
    parts = [_time_axis(seconds, base, first)]
    for tick in _ticks(top, 3):
        y = base - tick / top * height
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = number_text(tick) if unit else bytes_text(tick)
        parts.append(f'<text class="tick" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text class="tick" x="{LEFT - 10}" y="12" text-anchor="end">{unit}</text>' if unit else "")
    edge = f"M{LEFT},{base} L" + " L".join(points) + f" L{WIDTH - RIGHT},{base} Z"
    parts.append(f'<path class="area f{colour}" d="{edge}"/>')
    parts.append(f'<polyline class="line s{colour}" points="{" ".join(points)}"/>')
    return _svg(base + 24, "".join(parts), f"{name.replace('_', ' ')} over time")


# Tables ---------------------------------------------------------------------------------------------------------------


def _table(heads: Collection[str], rows: Iterable[str], numbers: tuple[int, ...] = ()) -> str:
    cells = "".join(
        f'<th class="number">{head}</th>' if place in numbers else f"<th>{head}</th>"
        for place, head in enumerate(heads)
    )
    kind = "scroll wide" if len(heads) > 4 else "scroll"  # too wide for a telephone
    return f'<div class="{kind}"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


_WARM_UP = "warm-up: the worker's first"


def _outlier_table(content: dict[str, Any]) -> str:
    outliers = content["outliers"]
    rows = [
        f"<tr><td><code>{escape(o['id'])}</code></td><td>{_frames_text(o['frames'])}</td><td>{escape(o['stage'])}</td>"
        f'<td class="number">{o["worker"]}</td><td class="number">{_s(o["duration_seconds"])}</td>'
        f'<td class="number">{o["times_median"]:.1f} x</td><td>{_WARM_UP if o["first_of_worker"] else ""}</td></tr>'
        for o in outliers[:SHOWN_ROWS]
    ]
    if not rows:
        return ""
    total = sum(entry["outliers"] for entry in content["durations"])
    note = f"The {len(rows)} most extreme of {total:,}; the JSON report names up to 1,000." if total > len(rows) else ""
    heads = ("hyperframe", "frames", "stage", "worker", "took", "of the median", "")
    return _section("Outliers: over twice the median", note, _table(heads, rows, numbers=(3, 4, 5)))


def _frames_text(frames: list[int] | None) -> str:
    return "" if frames is None else f"{frames[0]:,} to {frames[1] - 1:,}"


def _what_ran(content: dict[str, Any]) -> str:
    what, machine = content["what"], content["machine"]
    versions = f"Hyperframes {machine['hyperframes']}, Python {machine['python']}, {machine['system']}"
    facts = [
        ("machine", f"{versions}, CPUs {_ranges_text(machine['cpus'])}, {_nodes_text(machine)}"),
        ("conversions", ", ".join(content["conversions"]) or "none"),
    ]
    stages = ""
    if what:
        sources = "; ".join(f"{s['name']} ({s['spec']}, {_length_text(s['frames'])})" for s in what["sources"])
        sinks = "; ".join(f"{s['name']} takes {s['takes']}" for s in what["sinks"])
        options = ", ".join(f"{name} = {value}" for name, value in what["options"].items()) or "all as by default"
        facts = [("source", sources), ("sink", sinks), ("options", options), *facts]
        rows = [
            f"<tr><td>{escape(s['name'])}</td><td><code>{escape(s['operator'])}</code></td>"
            f"<td>{escape(', '.join(s['inputs']))}</td><td>{s['halo']['before']} + {s['halo']['after']}</td>"
            f"<td>{s['dependency']}</td><td>{escape(s['resource'])}</td></tr>"
            for s in what["stages"]
        ]
        stages = _table(("stage", "operator", "reads", "halo", "dependency", "resource"), rows) if rows else ""
    listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"{stages}<dl>{listed}</dl>"


def _length_text(frames: int | None) -> str:
    return "unknown length" if frames is None else count_text(frames, "frame")


def _nodes_text(machine: dict[str, Any]) -> str:
    used = [node for node, cpus in machine["nodes"].items() if set(cpus) & set(machine["cpus"])]
    return f"on {len(used)} of {count_text(len(machine['nodes']), 'memory node')}"


def _ranges_text(numbers: list[int]) -> str:
    """Return 0-3, 8 for [0, 1, 2, 3, 8]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# Look -----------------------------------------------------------------------------------------------------------------

_LIGHT = ("#2f6fdb", "#e07b39", "#1f9e77", "#7a5bd0", "#c99a06", "#c2528b", "#4aa3c7", "#8a6d4b")
_DARK = ("#6ea0f5", "#f0985c", "#4cc29b", "#a58cf0", "#e3bb45", "#e07fb0", "#74c2e0", "#b99a75")


def _palette(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))


_STYLE = (
    ":root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2230;--quiet:#667085;--line:#e4e7ec;"
    "--bad:#c92a2a;--warn:#b25e09;--idle:#d5dae1;--source:#b4bdc9;--scheduler:#8792a2;"
    + _palette(_LIGHT)
    + "}@media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171b22;--ink:#e6e9ef;--quiet:#939cab;"
    "--line:#2a303a;--bad:#ff7b72;--warn:#e3a24a;--idle:#333b47;--source:#4a5462;--scheduler:#6b7686;"
    + _palette(_DARK)
    + "}}"
    + "".join(
        f".f{n}{{fill:var(--c{n})}}.s{n}{{stroke:var(--c{n})}}.b{n}{{background:var(--c{n})}}"
        for n in range(NUM_COLOURS)
    )
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1160px;margin:0 auto;padding:36px 24px 64px}
h1{font-size:24px;line-height:1.4;margin:2px 0 6px;font-weight:600;overflow-wrap:anywhere}h1 code{font-size:21px}
h2{font-size:16px;margin:0 0 4px;font-weight:600}h3{font-size:14px;margin:18px 0 0;font-weight:600}
p{margin:0}.quiet{color:var(--quiet);font-size:13px}.arrow{color:var(--quiet);padding:0 10px}
.eyebrow{color:var(--quiet);font-size:12px;letter-spacing:.08em;text-transform:uppercase}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
section,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px}
section{padding:20px 22px;margin-top:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin-top:22px}
.tile{padding:14px 16px}.tile .label{font-size:12px;color:var(--quiet)}
.tile .value{font-size:22px;font-weight:600;white-space:nowrap}
.chart{overflow-x:auto;margin-top:12px}svg{display:block;width:100%;height:auto}
svg text{font-family:inherit;fill:var(--ink)}svg .tick{font-size:11.5px;fill:var(--quiet)}svg .lane{font-size:12.5px}
.grid{stroke:var(--line);stroke-width:1}.mark{stroke:var(--quiet);stroke-width:1;stroke-dasharray:4 4}
.out{stroke:var(--bad);stroke-width:1.6}.late{fill:var(--bad)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.area{opacity:.16}
.idle{fill:var(--idle)}.source{fill:var(--source)}.scheduler{fill:var(--scheduler)}
.b-idle{background:var(--idle)}.b-source{background:var(--source)}.b-scheduler{background:var(--scheduler)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin-top:10px;font-size:13px}
.swatch{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}
.scroll{overflow-x:auto;margin-top:12px}table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;color:var(--quiet);font-weight:500;font-size:12px}
td,th{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);white-space:nowrap}tr:last-child td{border-bottom:0}
.number{text-align:right;font-variant-numeric:tabular-nums}
.notice{border-left:4px solid var(--warn)}.notice.bad{border-left-color:var(--bad)}
.notice ul{margin:6px 0 0;padding-left:20px}.notice h2{color:var(--warn)}.notice.bad h2{color:var(--bad)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:6px 18px;margin:16px 0 0;font-size:13.5px}
dt{color:var(--quiet)}dd{margin:0;overflow-wrap:anywhere}
@media(max-width:900px){main{padding:20px 12px 40px}section{padding:16px 14px}h1{font-size:19px}h1 code{font-size:17px}
.chart svg{width:1000px}.chart.whole svg{width:100%}dl{grid-template-columns:1fr;gap:2px}dd{margin-bottom:8px}
.tiles{grid-template-columns:1fr 1fr}
.chart:not(.whole)::before,.wide::before{content:"scroll sideways →";position:sticky;left:0;display:inline-block;
color:var(--quiet);font-size:12px}}
"""
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
<header>{header}</header>
{body}
</main></body>
</html>
"""
