"""A trained model under the glass: its warp, its maps, and a table of faults that are known, with what to do."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import cv2
import numpy as np
import torch

from hyperframes.drivers import stream
from hyperframes.errors import FrameError, MissingExtraError, SinkError
from hyperframes.frames import Clip
from hyperframes.neural.curvature import curvature
from hyperframes.neural.data import Sample
from hyperframes.neural.layers import AdaptiveGridWarp, LocalManifoldAttention, TemporalGradientProjection
from hyperframes.neural.pictures import animation, captioned, enlarged, hot, side_by_side
from hyperframes.neural.profiling import Cost, profiled
from hyperframes.neural.tensor import HyperTensor
from hyperframes.neural.train.fit import load_model
from hyperframes.neural.train.tasks import windows_of

if TYPE_CHECKING:
    import os

    from torch import nn

    from hyperframes.frames import Array

__all__ = ["Check", "Inspection", "inspect", "trigger_offset", "warp_health"]

Verdict = Literal["good", "bad", "not there", "untrained"]

STILL = 1e-3
"""Offsets below that share of their bound count as none."""
MOST_STILL = 0.9
JUMP = 0.8
"""Of the greatest difference of two neighbouring control points."""
LARGEST_LOGIT = 1e4
FAINT = 0.1
RATE_FACTOR = 2.0
TRIGGER_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table."""

    name: str
    measured: str
    verdict: Verdict
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen."""

    model: str
    source: str
    answer: dict[str, float]
    """Probability by class."""
    tensor: HyperTensor
    checks: tuple[Check, ...]
    pictures: tuple[Path, ...]
    costs: tuple[Cost, ...] = ()
    """Of one answer by operator, dearest first, where they were asked for."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "model": self.model,
            "source": self.source,
            "answer": self.answer,
            "shape": list(self.tensor.data.shape),
            "space": self.tensor.space,
            "checks": [asdict(check) for check in self.checks],
            "pictures": [str(path) for path in self.pictures],
            "costs": [asdict(cost) for cost in self.costs],
        }

    def text(self) -> str:
        """Return what the model says, in a sentence."""
        told = ", ".join(f"{name} {p:.2f}" for name, p in sorted(self.answer.items(), key=lambda i: -i[1])[:3])
        _n, c, w, h, width = self.tensor.data.shape
        return f"{told}; tensor {c} channels ({self.tensor.space} of space), {w} slices of {h} x {width}"


def inspect(
    model: str | os.PathLike[str],
    source: str,
    out: str | os.PathLike[str],
    *,
    start: int = 0,
    beside: str | None = None,
    profile: bool = False,
) -> Inspection:
    """Show a window of a source to a trained classifier, draw what it makes of it, and look for known faults.

    Parameters
    ----------
    model : path
        Of a checkpoint.
    source : path or URL
        Of the form that the model was trained on.
    out : path
        Folder of the pictures; made where it is not there.
    start : int
        First frame of the window.
    beside : path or URL, optional
        A second camera of the same scene.
    profile : bool
        Whether to tell what an answer costs, operator by operator.

    Raises
    ------
    FrameError
        If the model makes no hyperframe tensor.
    """
    net, checkpoint, config = load_model(model)
    encoder: Any = net.encoder
    if not hasattr(encoder, "space"):
        raise FrameError(
            f"{model} is a {config.model.encoder!r} and makes no hyperframe tensor to inspect",
            hint="Inspect models with the encoder mch, sch, edh or hybrid.",
        )
    length = config.data.frames * config.data.stride
    stop = None if config.data.form == "events" else start + length
    sample = Sample(source, checkpoint.classes[0], start=0 if stop is None else start, stop=stop)
    window = windows_of(config, [sample], checkpoint.classes, training=False).window(0, 0)[None]
    seen = _Seen(net)
    with seen, torch.no_grad():
        logits, data, _ = net.with_tensor(window)  # type: ignore[operator]  # classifiers have it
    answer = dict(zip(checkpoint.classes, logits[0].double().softmax(0).tolist(), strict=True))
    tensor = HyperTensor(data, int(encoder.space), encoder.kind, curvature(data), source, ((start, start + length),))
    checks = (
        *_grid_checks(net, seen, trained=checkpoint.step > 0),
        _attention_check(seen),
        _prototype_check(net, tensor, trained=checkpoint.step > 0),
        _density_check(encoder, window),
        _trigger_check(source, beside),
    )
    pictures = _draw(Path(out), tensor, net, seen)
    costs = profiled(net, window) if profile else ()
    return Inspection(str(model), source, answer, tensor, checks, pictures, costs)


class _Seen:
    """Notes what grid warps and attentions are given while it is open."""

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self.offsets: list[tuple[AdaptiveGridWarp, torch.Tensor]] = []
        self.logits: list[float] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        for module in self._net.modules():
            if isinstance(module, AdaptiveGridWarp):
                self._hooks.append(module.register_forward_pre_hook(self._warp))
            elif isinstance(module, LocalManifoldAttention):
                self._hooks.append(module.register_forward_pre_hook(self._attention))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _warp(self, module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        assert isinstance(module, AdaptiveGridWarp)
        self.offsets.append((module, module.control(inputs[0])))

    def _attention(self, module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        assert isinstance(module, LocalManifoldAttention)
        self.logits.append(module.largest_logit(inputs[0]))


# Checks ---------------------------------------------------------------------------------------------------------------


def warp_health(warp: AdaptiveGridWarp, control: torch.Tensor) -> tuple[float, float]:
    """Return the share of offsets that are as good as none, and the greatest jump between neighbours.

    Parameters
    ----------
    warp : AdaptiveGridWarp
    control : (N, 3 or 2, T, H, W)
        Offsets of its control points. Both numbers are in shares of how far a point may move.
    """
    share = (control.detach() / warp.limit.clamp_min(1e-12)).float()
    share = share[:, warp.limit.flatten() > 0]
    if share.numel() == 0:
        return 1.0, 0.0
    jumps = [float(share.diff(dim=axis).abs().max()) for axis in (2, 3, 4) if share.shape[axis] > 1]
    return float((share.abs() < STILL).float().mean()), max(jumps, default=0.0)


def _grid_checks(net: nn.Module, seen: _Seen, *, trained: bool) -> list[Check]:
    if not seen.offsets:
        return [Check("grid warp", "no grid warp", "not there")]
    rows = []
    for warp, control in seen.offsets:
        still, jump = warp_health(warp, control)
        measured = f"{still:.0%} of offsets none, greatest jump {jump:.2f} of the bound"
        uneven = [
            f"{size} over {points}"
            for size, points in zip(warp.size, warp.grid, strict=True)
            if size % points and points > 1
        ]
        if not trained:
            rows.append(Check("grid warp", measured, "untrained", "Judge it after training: it starts at none."))
        elif still > MOST_STILL or jump > 2 * JUMP:
            remedy = "Take a grid that divides the tensor" if uneven else "Leave the warp out, or train it longer"
            rows.append(Check("grid warp", measured, "bad", f"{remedy}."))
        else:
            rows.append(Check("grid warp", measured, "good"))
    return rows


def _attention_check(seen: _Seen) -> Check:
    if not seen.logits:
        return Check("attention", "no local attention", "not there")
    largest = max(seen.logits)
    bad = not largest < LARGEST_LOGIT
    remedy = "Keep the normalisation of queries and keys, and lower the learning rate." if bad else ""
    return Check("attention", f"greatest |q.k| {largest:.3g}", "bad" if bad else "good", remedy)


def _prototype_check(net: Any, tensor: HyperTensor, *, trained: bool) -> Check:
    prototypes: TemporalGradientProjection | None = getattr(net, "prototypes", None)
    if prototypes is None or tensor.data.shape[2] < 2:
        return Check("prototypes", "no prototypes of change", "not there")
    with torch.no_grad():
        top = float(prototypes(tensor.data[:, tensor.space :]).amax(1).mean())
    faint = top < FAINT
    remedy = "Fit the prototypes on clips as slow as these." if faint else ""
    verdict: Verdict = "bad" if faint else "good"
    return Check("prototypes", f"mean of the best scores {top:.2f}", verdict if trained else "untrained", remedy)


def _density_check(encoder: Any, window: torch.Tensor) -> Check:
    density = getattr(encoder, "density", None)
    if density is None:
        return Check("event rate", "no events", "not there")
    occupied = window[window > 0]
    measured, fitted = float(occupied.mean()) if len(occupied) else 0.0, float(density.rate)
    if fitted <= 0:
        return Check("event rate", f"{measured:.2f} events a voxel, never fitted", "bad", "Fit it: density.fit(grids).")
    off = not fitted / RATE_FACTOR <= measured <= fitted * RATE_FACTOR
    remedy = "Fit it on recordings of this sensor: density.fit(grids)." if off else ""
    return Check(
        "event rate", f"{measured:.2f} events a voxel, fitted on {fitted:.2f}", "bad" if off else "good", remedy
    )


def _trigger_check(source: str, beside: str | None) -> Check:
    if beside is None:
        return Check("trigger", "one camera", "not there", "Name the other with --beside.")
    offset = trigger_offset(source, beside)
    if offset is None:
        return Check("trigger", "nothing moves in both", "bad", "Record a flash of light that both see.")
    off = abs(offset) > TRIGGER_SECONDS
    remedy = f"Shift by {-offset * 1e3:+.1f} ms, with TimeWarp or when frames are aligned." if off else ""
    return Check("trigger", f"{offset * 1e3:+.1f} ms", "bad" if off else "good", remedy)


def trigger_offset(one: Any, other: Any, *, most_seconds: float = 0.5) -> float | None:
    """Return by how many seconds the second camera shows things later than the first; None where nothing tells.

    The peak, between frames by a parabola, of the normalised cross-correlation of how the mean light changes: a flash or
    anything else that both see.

    Parameters
    ----------
    one, other : path, URL, array or Source
        Of equal frame rates.
    most_seconds : float
    """
    (first, rate), (second, other_rate) = _light(one), _light(other)
    if rate != other_rate:
        raise FrameError(f"cameras are compared at one frame rate: got {rate:g} and {other_rate:g}")
    length = min(len(first), len(second))
    first, second = np.diff(first[:length]), np.diff(second[:length])
    reach = min(round(most_seconds * rate), length - 4)
    if reach < 1 or first.std() < 1e-9 or second.std() < 1e-9:
        return None
    scores = [_alike(first, second, lag) for lag in range(-reach, reach + 1)]
    best = int(np.argmax(scores))
    if scores[best] < 0.3:
        return None
    lag = float(best - reach)
    if 0 < best < len(scores) - 1:
        before, at, after = scores[best - 1 : best + 2]
        bend = before - 2 * at + after
        lag += 0.5 * (before - after) / bend if bend < 0 else 0.0
    return lag / rate


def _alike(first: Array, second: Array, lag: int) -> float:
    a, b = (first[: len(first) - lag], second[lag:]) if lag >= 0 else (first[-lag:], second[: len(second) + lag])
    a, b = a - a.mean(), b - b.mean()
    length = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / length if length > 0 else 0.0


def _light(source: Any) -> tuple[Array, float]:
    means: list[float] = []
    rate = 0.0
    for clip in stream(source, (), pixel_format="gray", workers=1):
        assert isinstance(clip, Clip)
        rate = float(clip.spec.rate or 1)
        means += clip.planes[0].reshape(len(clip.planes[0]), -1).mean(1).tolist()
    return np.array(means), rate


# Pictures -------------------------------------------------------------------------------------------------------------


def _draw(folder: Path, tensor: HyperTensor, net: nn.Module, seen: _Seen) -> tuple[Path, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    maps = tensor.pictures()
    drawn: list[Path] = []

    def write(name: str, picture: Array) -> None:
        path = folder / name
        if not cv2.imwrite(str(path), picture if picture.ndim == 2 else picture[..., ::-1]):
            raise SinkError(f"cannot write {path}", sink=str(path))
        drawn.append(path)

    if "space" in maps:
        title = "spatial channels, mean\nblack: least, white: greatest"
        write("space.png", captioned(enlarged(maps["space"]), title))
    if "curvature" in maps:
        title = "curvature, a panel a time slice; black: 0, white: its 95th percentile and above"
        panels = [enlarged(hot(one)) for one in maps["curvature"]]
        write("curvature.png", captioned(side_by_side(panels), title, _slices(len(panels))))
    if "time" in maps:
        title = "temporal channels, mean, a panel a time slice; black: least, white: greatest"
        panels = [enlarged(one) for one in maps["time"]]
        write("time.png", captioned(side_by_side(panels), title, _slices(len(panels))))
        path = folder / "time.gif"
        path.write_bytes(animation(np.stack([enlarged(one) for one in maps["time"]])))
        drawn.append(path)
    if seen.offsets:
        drawn.append(_draw_warp(folder / "warp.png", *seen.offsets[0], tensor))
    return tuple(drawn)


def _slices(count: int) -> list[str]:
    return [f"slice {number + 1} of {count}" for number in range(count)]


def _draw_warp(path: Path, warp: AdaptiveGridWarp, control: torch.Tensor, tensor: HyperTensor) -> Path:
    """Draw the offsets of the control points as arrows over the spatial map, a panel for each of them along w.

    Where all are short, arrows are made 2, 5, 10, ... times as long, and the picture says so.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("the picture of the warp", "plot") from error
    _, height, width = warp.size
    times, rows, columns = warp.grid
    x, y = np.meshgrid(_points(columns, width), _points(rows, height))
    moved = control[0].float().numpy()
    scale = np.array([(width - 1) / 2, (height - 1) / 2])
    longest = float(np.abs(moved[:2].T * scale).max())
    longer = max((k * 10.0**n for n in range(9) for k in (1, 2, 5) if k * 10.0**n * longest <= 1), default=1.0)
    longer = longer if longest > 1e-9 else 1.0
    figure = Figure(figsize=(max(6.4, 3.2 * times), 3.9), layout="constrained")
    background = tensor.pictures().get("space")
    for k, axis in enumerate(np.atleast_1d(figure.subplots(1, times))):
        if background is not None:
            axis.imshow(background, cmap="gray", extent=(-0.5, width - 0.5, height - 0.5, -0.5))
        along = moved[2, k] if len(moved) == 3 else np.zeros_like(x)
        arrows = axis.quiver(
            x, y, longer * scale[0] * moved[0, k], longer * scale[1] * moved[1, k], along,
            angles="xy", scale_units="xy", scale=1, cmap="coolwarm", clim=_limits(moved), width=0.008,
        )  # fmt: skip
        axis.set(title=f"point {k + 1} of {times} in time", xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
        axis.set(xlabel="column of the tensor", ylabel="row of the tensor")
        axis.label_outer()
    scaled = f", drawn {longer:g} times as long" if longer > 1 else ""
    figure.suptitle(f"where the grid warp reads from: offsets of its control points{scaled}")
    figure.colorbar(arrows, ax=figure.axes, label="offset in time (1: half the window)", shrink=0.8)
    figure.savefig(path, dpi=110)
    return path


def _points(count: int, size: int) -> Array:
    return np.linspace(0, size - 1, count) if count > 1 else np.array([(size - 1) / 2])


def _limits(moved: Array) -> tuple[float, float]:
    most = max(float(np.abs(moved[2]).max()) if len(moved) == 3 else 0.0, 1e-6)
    return -most, most
