"""What a sweep found, drawn: throughput over size, and a heat map of size x workers, as PNG or as one HTML page."""

from __future__ import annotations

import math
import os
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.page import document
from hyperframes.drivers.quantity import bytes_text, count_text, number_text, seconds_text
from hyperframes.errors import MissingExtraError, PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hyperframes.tuning.sweep import Cell, Sweep

__all__ = ["check_plot_path", "page", "save_plot"]

SUFFIXES = (".png", ".html")


def check_plot_path(path: str | os.PathLike[str]) -> Path:
    """Return `path`, if a plot can be written there.

    Raises
    ------
    PipelineError
        If it ends in neither .png nor .html, or its folder does not exist.
    MissingExtraError
        If it ends in .png and matplotlib is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise PipelineError(
            f"a plot is written as .png or .html: got {str(path)!r}",
            got=str(path),
            hint="For example: --plot tune.html",
        )
    if not target.parent.is_dir():
        raise PipelineError(f"the folder of {str(path)!r} does not exist", got=str(path))
    if target.suffix.lower() == ".png":
        _matplotlib()
    return target


def save_plot(found: Sweep, path: str | os.PathLike[str]) -> Path:
    """Draw `found` to `path`, in one step: a picture for .png (extra ``plot``), one page without scripts for .html.

    Raises
    ------
    PipelineError, MissingExtraError
        See `check_plot_path`.
    """
    target = check_plot_path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    beside = Path(name)
    try:
        if target.suffix.lower() == ".png":
            _draw(found, beside)
        else:
            beside.write_text(page(found), encoding="utf-8")
        beside.chmod(0o644)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return target


# PNG ------------------------------------------------------------------------------------------------------------------


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("a plot as .png", "plot") from error
    return Figure


def _draw(found: Sweep, path: Path) -> None:
    facets = _facets(found)
    figure = _matplotlib()(figsize=(12 * len(facets), 9), dpi=110, layout="constrained")
    axes = figure.subplots(2, len(facets), height_ratios=(3, 2), squeeze=False, sharey="row")
    for column, (title, facet) in enumerate(facets):
        _draw_curve(axes[0][column], facet, chosen=_is_chosen(facet, found))
        _draw_heat(figure, axes[1][column], facet, found)
        axes[0][column].set_title(title or "throughput over size")
    chosen = f"size {found.size}, {_workers_text(found.workers)}{_layout_text(found)}"
    operators = " + ".join(found.operators) or "no operator"
    figure.suptitle(f"{operators} over {found.spec}: {chosen}, {number_text(found.frames_per_second)} frames/s")
    figure.savefig(path)


def _is_chosen(facet: Sweep, whole: Sweep) -> bool:
    """Return whether the layout of a facet is the one that was chosen: others have a knee, too."""
    return len(whole.layouts) == 1 or facet.layout == whole.layout


def _draw_curve(axes: Any, found: Sweep, *, chosen: bool) -> None:
    for workers in _workers(found):
        cells = _measured(found, workers)
        axes.errorbar(
            [cell.size for cell in cells],
            [cell.frames_per_second for cell in cells],
            yerr=[cell.deviation for cell in cells],
            marker="o",
            markersize=4,
            capsize=3,
            label=_workers_text(workers),
        )
    axes.plot(
        [found.size],
        [found.frames_per_second],
        "o",
        markersize=15,
        fillstyle="none",
        color="black" if chosen else "grey",
        label=f"{'chosen' if chosen else 'knee'}: size {found.size}, {_workers_text(found.workers)}",
    )
    axes.set_xscale("log", base=2)
    ticks = _spaced(_sizes(found))
    axes.set_xticks(ticks, [str(size) for size in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set(xlabel="size (frames a hyperframe owns)", ylabel="frames/s (median, bars: median absolute deviation)")
    axes.yaxis.set_major_formatter(lambda rate, _: number_text(rate))
    axes.grid(alpha=0.3)
    axes.legend(loc="best")


def _draw_heat(figure: Any, axes: Any, found: Sweep, whole: Sweep) -> None:
    sizes, workers, best = _sizes(found), _workers(found), _best(whole)
    rows = [[_rate(found, size, count) for size in sizes] for count in workers]
    image = axes.imshow(rows, aspect="auto", cmap="viridis", vmin=0, vmax=best)
    for y, row in enumerate(rows):
        for x, rate in enumerate(row):
            text = "invalid" if math.isnan(rate) else number_text(rate)
            dark = not math.isnan(rate) and rate < 0.6 * best
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    if _is_chosen(found, whole):
        axes.add_patch(_frame(sizes.index(found.size), workers.index(found.workers)))
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_yticks(range(len(workers)), [str(count) for count in workers])
    framed = "; red frame: chosen" if _is_chosen(found, whole) else ""
    axes.set(xlabel=f"size (frames a hyperframe owns){framed}", ylabel="workers")
    figure.colorbar(image, ax=axes, label="frames/s", format=lambda rate, _: number_text(rate))


def _frame(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, fill=False, edgecolor="red", linewidth=2)


def _spaced(sizes: list[int]) -> list[int]:
    """Leave out sizes whose labels would lie on each other: 30, 31 and 33 beside 32."""
    shown: list[int] = []
    for size in sizes:
        if not shown or size >= 1.2 * shown[-1]:
            shown.append(size)
    return shown


# HTML -----------------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 1080, 350
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 24, 40
_SIZE_AXIS = "size (frames a hyperframe owns)"


def page(found: Sweep) -> str:
    """Return one page: figures, curve, heat map and table; inline SVG, light and dark, no script and no network."""
    sections = [
        _tiles(found),
        *(_facet(title, facet, found) for title, facet in _facets(found)),
        _section("What was measured", _measured_note(found), _table(found)),
    ]
    title = " + ".join(found.operators) or "no operator"
    header = (
        f'<p class="eyebrow">Hyperframes tuning</p><h1><code>{escape(title)}</code></h1><p class="quiet">'
        f"{escape(found.source)}, {escape(found.spec)}, {escape(found.created.replace('T', ' '))}</p>"
    )
    return document(f"{title} - Hyperframes tuning", header, "\n".join(sections))


def _section(heading: str, note: str, drawing: str) -> str:
    return f'<section><h2>{heading}</h2><p class="quiet">{escape(note)}</p>{drawing}</section>'


def _facet(title: str, found: Sweep, whole: Sweep) -> str:
    """Return curves and heat map of one layout, on the scale of all."""
    curve = _curve(found, whole, by_cpu=False) + _legend(found)
    heat = _heat(found, _best(whole))
    of = f": {title}" if title else ""
    return "\n".join(
        (
            _section(f"Throughput over size{of}", f"{_CURVE_NOTE} Ring: {_knee(found, whole)}.", curve),
            _by_cpu(found, whole),
            _section(f"Size x workers{of}", f"Frames/s; the frame marks {_knee(found, whole)}.", heat),
        )
    )


def _by_cpu(found: Sweep, whole: Sweep) -> str:
    if not found.noisy:
        return ""
    note = "The machine was busy while it was measured; processor time is what it would take alone, and decides. Ring: what was chosen."
    return _section("Frames per second of processor time", note, _curve(found, whole, by_cpu=True) + _legend(found))


def _tiles(found: Sweep) -> str:
    costs = found.costs()[found.workers]
    tiles = (
        (
            "size",
            str(found.size),
            f"smallest within 3 % of the best; halo {found.halo.before}\u00a0+\u00a0{found.halo.after}",
        ),
        ("workers", str(found.workers), "fewest within 3 % of the best"),
        *((("layout", found.layout, "fastest with the same results"),) if len(found.layouts) > 1 else ()),
        ("frames a second", number_text(found.frames_per_second), f"frames of {bytes_text(found.frame_bytes)}"),
        ("fixed cost", seconds_text(costs.fixed_seconds), "of a hyperframe, whatever its size"),
        ("frame cost", seconds_text(costs.frame_seconds), "of every frame, halo included"),
        ("copy", f"{bytes_text(found.bandwidth)}/s", "on one thread, reads and writes"),
    )
    cells = "".join(
        f'<div class="tile"><p class="label">{label}</p><p class="value">{escape(value)}</p>'
        f'<p class="quiet">{escape(detail)}</p></div>'
        for label, value, detail in tiles
    )
    return f'<div class="tiles">{cells}</div>'


_CURVE_NOTE = "Frames/s, median of the repetitions; bars show their median absolute deviation."


def _knee(facet: Sweep, whole: Sweep) -> str:
    return "what was chosen" if _is_chosen(facet, whole) else "the knee of this layout, which was not chosen"


def _measured_note(found: Sweep) -> str:
    return (
        "Frames of the source lay in memory: neither decoding nor writing is in here, and neither depends on the size. "
        f"Machine: {found.key.machine}."
    )


class _Scale:
    """Places of sizes (logarithmic) and rates on the drawing."""

    def __init__(self, whole: Sweep, *, by_cpu: bool) -> None:
        sizes, self._by_cpu = _sizes(whole), by_cpu
        self.unit = "frames/s of processor time" if by_cpu else "frames/s"
        self._low, self._high = math.log(sizes[0]), math.log(max(sizes[-1], sizes[0] + 1))
        self.top = 1.08 * max(self.rate(cell) + self.deviation(cell) for cell in whole.valid)

    def rate(self, cell: Cell) -> float:
        return cell.frames_per_cpu_second if self._by_cpu else cell.frames_per_second

    def deviation(self, cell: Cell) -> float:
        return 0.0 if self._by_cpu else cell.deviation

    def place(self, cell: Cell) -> tuple[float, float]:
        return self.x(cell.size), self.y(self.rate(cell))

    def x(self, size: int) -> float:
        share = (math.log(size) - self._low) / (self._high - self._low)
        return LEFT + 20 + share * (WIDTH - LEFT - RIGHT - 40)

    def y(self, rate: float) -> float:
        return TOP + (1 - rate / self.top) * (HEIGHT - TOP - BOTTOM)


def _curve(found: Sweep, whole: Sweep, *, by_cpu: bool) -> str:
    scale = _Scale(whole, by_cpu=by_cpu)
    parts = list(_grid(found, scale))
    for number, workers in enumerate(_workers(found)):
        cells = _measured(found, workers)
        points = " ".join("{:.1f},{:.1f}".format(*scale.place(cell)) for cell in cells)
        parts.append(f'<polyline class="line s{number % 8}" points="{points}"/>')
        parts += [_mark(cell, scale, number % 8) for cell in cells]
    x, y = scale.place(found.cell(found.size, found.workers))
    parts.append(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" fill="none" stroke="var(--ink)" stroke-width="1.8">'
        f"<title>knee: size {found.size}</title></circle>"
    )
    return _svg(HEIGHT, parts, f"frames a second over size; knee at size {found.size}")


def _grid(found: Sweep, scale: _Scale) -> Iterable[str]:
    step = _nice(scale.top / 5)
    for number in range(int(scale.top / step) + 1):
        y = scale.y(number * step)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{number_text(number * step)}</text>'
    yield f'<text class="tick" x="4" y="12">{scale.unit}</text>'
    for size in _spaced(_sizes(found)):
        x = scale.x(size)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="tick" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{_SIZE_AXIS}</text>'


def _mark(cell: Cell, scale: _Scale, colour: int) -> str:
    (x, y), deviation = scale.place(cell), scale.deviation(cell)
    low, high = (scale.y(max(0.0, scale.rate(cell) + sign * deviation)) for sign in (-1, 1))
    return (
        f'<line class="s{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        f'<circle class="f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(_told(cell))}</title></circle>'
    )


def _told(cell: Cell) -> str:
    if cell.invalid:
        return f"size {cell.size}, workers {cell.workers}: {cell.invalid}"
    return (
        f"size {cell.size}, workers {cell.workers}: {number_text(cell.frames_per_second)} frames/s, "
        f"deviation {number_text(cell.deviation)}"
    )


def _legend(found: Sweep) -> str:
    items = "".join(
        f'<span><span class="swatch b{number % 8}"></span>{_workers_text(workers)}</span>'
        for number, workers in enumerate(_workers(found))
    )
    return f'<div class="legend">{items}</div>'


def _heat(found: Sweep, best: float) -> str:
    sizes, workers = _sizes(found), _workers(found)
    wide, high = (WIDTH - LEFT - RIGHT) / len(sizes), 44
    parts = []
    for row, count in enumerate(workers):
        y = TOP + row * high
        label = _workers_text(count)
        parts.append(f'<text class="tick" x="{LEFT - 10}" y="{y + 26}" text-anchor="end">{label}</text>')
        for column, size in enumerate(sizes):
            x, cell = LEFT + column * wide, found.cell(size, count)
            parts.append(_heat_cell(cell, x, y, wide, high, cell.frames_per_second / best))
            if (size, count) == (found.size, found.workers):
                frame = f'<rect x="{x + 1.5:.1f}" y="{y + 1.5}" width="{wide - 3:.1f}" height="{high - 3}" rx="5" '
                parts.append(frame + 'fill="none" stroke="var(--ink)" stroke-width="2.2"/>')
    bottom = TOP + len(workers) * high
    for column, size in enumerate(sizes):
        x = LEFT + (column + 0.5) * wide
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{size}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="tick" x="{middle}" y="{bottom + 35}" text-anchor="middle">{_SIZE_AXIS}</text>')
    return _svg(bottom + 42, parts, "frames a second for every size and number of workers")


def _heat_cell(cell: Cell, x: float, y: float, wide: float, high: float, share: float) -> str:
    place = f'x="{x + 2:.1f}" y="{y + 2:.1f}" width="{wide - 4:.1f}" height="{high - 4}" rx="4"'
    text = "-" if cell.invalid else number_text(cell.frames_per_second)
    look = 'class="idle" opacity=".5"' if cell.invalid else f'class="f0" opacity="{0.08 + 0.72 * share**2:.2f}"'
    return (
        f"<g><title>{escape(_told(cell))}</title><rect {place} {look}/>"
        f'<text x="{x + wide / 2:.1f}" y="{y + high / 2 + 4:.1f}" text-anchor="middle" font-size="12">{text}</text></g>'
    )


def _table(found: Sweep) -> str:
    heads = ("layout", "workers", "size", "frames/s", "deviation", "frames/s of processor time", "repetitions", "")
    rows = []
    for cell in found.cells:
        numbers = (
            cell.layout,
            str(cell.workers),
            str(cell.size),
            number_text(cell.frames_per_second) if cell.measurements else "-",
            number_text(cell.deviation) if len(cell.measurements) > 1 else "-",
            number_text(cell.frames_per_cpu_second) if cell.measurements else "-",
            str(len(cell.measurements)),
        )
        cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
        rows.append(f"<tr>{cells}<td>{escape(cell.invalid)}</td></tr>")
    head = "".join(f'<th class="number">{name}</th>' for name in heads[:-1]) + "<th></th>"
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _svg(height: float, parts: list[str], label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _nice(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)


# Both -----------------------------------------------------------------------------------------------------------------


def _workers_text(workers: int) -> str:
    return count_text(workers, "worker")


def _facets(found: Sweep) -> list[tuple[str, Sweep]]:
    """Return one sweep for each layout that was measured, with what to call it."""
    measured = [layout for layout in found.layouts if found.of_layout(layout).valid]
    if len(found.layouts) == 1:
        return [("", found)]
    other = dict.fromkeys(found.unlike, ", other results")
    return [(layout + other.get(layout, ""), found.of_layout(layout)) for layout in measured]


def _best(found: Sweep) -> float:
    return max(cell.frames_per_second for cell in found.valid)


def _layout_text(found: Sweep) -> str:
    return f", {found.layout}" if len(found.layouts) > 1 else ""


def _sizes(found: Sweep) -> list[int]:
    return sorted({cell.size for cell in found.cells})


def _workers(found: Sweep) -> list[int]:
    return sorted({cell.workers for cell in found.cells})


def _measured(found: Sweep, workers: int) -> list[Cell]:
    return sorted((c for c in found.valid if c.workers == workers), key=lambda cell: cell.size)


def _rate(found: Sweep, size: int, workers: int) -> float:
    cell = found.cell(size, workers)
    return cell.frames_per_second if cell.measurements else math.nan
