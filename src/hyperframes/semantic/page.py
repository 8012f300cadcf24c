"""What a notebook shows of a descriptor: its maps, its anchors on a line, paths between them, its features."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

import cv2
import numpy as np

from hyperframes.semantic.descriptor import PARTS

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.semantic.descriptor import Descriptor, Trajectory

__all__ = ["page_of"]

_WIDTH, _HEIGHT, _SIDE = 360, 64, 128
_GRID, _GRID_AT = 4, 80
_LAYERS = ("#2563eb", "#16a34a", "#ea580c")
_COLOURS = {"motion": "#2563eb", "cut": "#dc2626", "fade": "#9333ea", "flash": "#ea580c"}


def page_of(descriptor: Descriptor) -> str:
    """Return HTML that needs nothing from elsewhere."""
    flags = [name for name in ("static", "cut", "degraded") if getattr(descriptor, name)]
    lag = "not known" if descriptor.lag_seconds is None else f"{descriptor.lag_seconds:+.3f} s"
    facts = {
        "source": descriptor.source,
        "frames": f"{descriptor.core[0]}:{descriptor.core[1]}",
        "seconds": f"{descriptor.seconds[0]:.3f} to {descriptor.seconds[1]:.3f}",
        "anchors": f"{len(descriptor.anchors)}, levels {descriptor.statistics}",
        "flags": ", ".join(flags) or "none",
        "tasks": ", ".join(descriptor.tasks) or "none",
        "sound after motion": lag,
    }
    rows = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
    maps = "".join(_figure(_png(confidence), f"where: {task}") for task, confidence in descriptor.regions.items())
    return (
        f"<div><table>{rows}</table>{_timeline(descriptor)}"
        f'<div style="display:flex;gap:8px;flex-wrap:wrap">{maps}{_paths(descriptor)}{_cells(descriptor)}{_features(descriptor)}</div></div>'
    )


def _timeline(descriptor: Descriptor) -> str:
    """Return the anchors as an SVG: where they stand, and how high their weights are."""
    start, stop = descriptor.seconds
    length = max(stop - start, 1e-9)
    stems = []
    for anchor in descriptor.anchors:
        x, top = _WIDTH * (anchor.seconds - start) / length, _HEIGHT * (1 - anchor.weight)
        colour = _COLOURS.get(anchor.kind, "#15803d")
        title = f"<title>{anchor.seconds:.3f} s, weight {anchor.weight:.2f}, {anchor.kind}</title>"
        stems.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEIGHT}" y2="{top:.1f}" stroke="{colour}">{title}</line>')
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="anchors by time and weight" '
        f'style="border-bottom:1px solid #888">{"".join(stems)}</svg>'
    )


def _paths(descriptor: Descriptor) -> str:
    """Return the trajectories as an SVG: coloured by when they begin, with a dot where they end."""
    if not descriptor.trajectories:
        return ""
    start, stop = descriptor.seconds
    drawn = "".join(_path(t, (t.start_seconds - start) / max(stop - start, 1e-9)) for t in descriptor.trajectories)
    caption = f"{len(descriptor.trajectories)} paths between anchors, from blue to red"
    return (
        f'<figure style="margin:0"><svg width="{_SIDE}" height="{_SIDE}" viewBox="0 0 1 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{caption}" style="background:#f1f5f9">{drawn}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _path(trajectory: Trajectory, share: float) -> str:
    points = trajectory.at(np.linspace(0, 1, 9))
    along = " ".join(f"{x:.3f},{y:.3f}" for x, y in points)
    colour = f"hsl({220 * (1 - share):.0f} 75% 45%)"
    x, y = points[-1]
    return (
        f'<polyline points="{along}" fill="none" stroke="{colour}" stroke-width="0.012"/>'
        f'<circle cx="{x:.3f}" cy="{y:.3f}" r="0.014" fill="{colour}"/>'
    )


def _cells(descriptor: Descriptor) -> str:
    """Return where boxes are as an SVG: 4 x 4 cells of the picture with three layers each, small, middling and large ones (C2)."""
    if not descriptor.feature_parts[0]:
        return ""
    layers = descriptor.semantic_features[PARTS["detection"]][_GRID_AT:].reshape(len(_LAYERS), _GRID, _GRID)
    side, drawn = _SIDE / _GRID, []
    for (size, row, column), value in np.ndenumerate(layers):
        x, y, height = side * column, side * (row + (size + 0.1) / len(_LAYERS)), 0.8 * side / len(_LAYERS)
        drawn.append(
            f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{(side - 4) * min(1.0, float(value)):.1f}" height="{height:.1f}" '
            f'fill="{_LAYERS[size]}"/><rect x="{x:.1f}" y="{side * row:.1f}" width="{side:.1f}" height="{side:.1f}" '
            'fill="none" stroke="#cbd5e1"/>'
        )
    caption = "where boxes are: small, middling, large"
    return (
        f'<figure style="margin:0"><svg width="{_SIDE}" height="{_SIDE}" role="img" aria-label="{caption}" '
        f'style="background:#f8fafc">{"".join(drawn)}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _features(descriptor: Descriptor) -> str:
    pictures = []
    for (name, where), valid in zip(PARTS.items(), descriptor.feature_parts, strict=True):
        values = np.abs(descriptor.semantic_features[where])
        scaled = (255 * values / max(float(values.max()), 1e-12)).astype(np.uint8)
        pictures.append(_figure(_png(scaled.reshape(8, 16)), name if valid else f"{name}: none"))
    return "".join(pictures)


def _png(grey: Array) -> str:
    _, data = cv2.imencode(".png", cv2.applyColorMap(np.ascontiguousarray(grey), cv2.COLORMAP_VIRIDIS))
    return base64.b64encode(data.tobytes()).decode()


def _figure(data: str, caption: str) -> str:
    text = html.escape(caption)
    picture = f'<img alt="{text}" width="{_SIDE}" style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
    return f'<figure style="margin:0">{picture}<figcaption>{text}</figcaption></figure>'
