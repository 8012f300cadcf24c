"""What answers and hyperframe blocks cost beside 3-D residual ones, and what training holds in memory beside networks of frames.

    python benchmarks/bench_neural.py [--rounds 9] [--part answers] [--part blocks] [--part memory]

Answers: processor milliseconds of one clip at a time, one thread, of the classifiers of bench_learned.py, made to answer only
(`neural.answering`), in the layout that suits each better. Blocks: two of HDSConv against the 3-D residual block of two convolutions, at equal width and at equal parameters; processor
milliseconds of a forward pass and of a training step on one thread, medians over rounds in which the three take turns, and how many
times as long the others took, formed within each round. Memory: the most that a fresh process holds in three steps of training, and
how much of it came after network and batch were made. Each part is put into results/neural.json when it is done.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from hyperframes import neural
from hyperframes.neural.baselines import FrameAverage, ResidualBlock, ResNet3D, num_parameters, width_for

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results/neural.json"
SHAPES = ((128, 64, 4, 32, 1), (256, 64, 4, 16, 1))
"""Of blocks: channels of space and of time, slices, side, batch; those of MCH and SCH."""
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last_3d}
CLIPS = ((16, 8, 48), (4, 16, 112))
"""Of training: batch, frames, side."""


SEEN = ((8, 48), (8, 96), (16, 112), (16, 224))
"""Of answers: frames, side."""


def in_best_layouts(taken: dict[tuple[str, str], list[float]]) -> tuple[dict[str, str], dict[str, list[float]]]:
    """Return for each contestant the layout in which it is faster, and its times there."""
    names = dict.fromkeys(name for name, _ in taken)
    layouts = {n: min(LAYOUTS, key=lambda one, n=n: statistics.median(taken[n, one])) for n in names}
    return layouts, {name: taken[name, layout] for name, layout in layouts.items()}


# Answers --------------------------------------------------------------------------------------------------------------


def answers(frames: int, side: int, rounds: int) -> dict[str, Any]:
    """Return what one answer costs each classifier; rounds take one after another."""
    made = {name: make() for name, make in classifiers(frames, side).items()}
    nets = {name: neural.answering(net) for name, net in made.items()}
    clip = torch.rand(1, 3, frames, side, side)
    taken: dict[tuple[str, str], list[float]] = {}
    with torch.inference_mode():
        for _ in range(rounds + 2):
            for name, net in nets.items():
                for layout, memory in LAYOUTS.items():
                    x = clip.contiguous(memory_format=memory)
                    began = time.process_time()
                    net(x)
                    taken.setdefault((name, layout), []).append((time.process_time() - began) * 1e3)
    layouts, best = in_best_layouts({case: times[2:] for case, times in taken.items()})
    return {
        "ms": {name: round(statistics.median(times), 2) for name, times in best.items()},
        "share": {
            name: round(statistics.median(a / b for a, b in zip(best["mch"], times, strict=True)), 3)
            for name, times in best.items()
            if name != "mch"
        },
        "layouts": layouts,
        "parameters": {name: num_parameters(net) for name, net in made.items()},
    }


# Blocks ---------------------------------------------------------------------------------------------------------------


def residual(channels: int) -> ResidualBlock:
    """One block of the 3-D ResNet, of `channels` in and out."""
    return ResidualBlock(channels, channels, 1, 3)


def contestants(space: int, time_channels: int) -> dict[str, tuple[torch.nn.Module, int]]:
    """Return what is compared, and the channels that each takes."""
    ours = torch.nn.Sequential(*(neural.HyperBlock(space, time_channels) for _ in range(2)))
    wanted = num_parameters(ours)
    equal = min(range(8, 128), key=lambda c: abs(num_parameters(residual(c)) - wanted))
    width = space + time_channels
    return {"hds": (ours, width), "equal width": (residual(width), width), "equal parameters": (residual(equal), equal)}


def run(block: torch.nn.Module, x: torch.Tensor, training: bool) -> Any:
    """Answer, or take the part of a training step that is the block's."""
    block.train(training)
    if not training:
        with torch.no_grad():
            return block(x)
    block.zero_grad(set_to_none=True)
    return block(x).square().mean().backward()  # type: ignore[no-untyped-call]  # torch's


def measure(shape: tuple[int, int, int, int, int], rounds: int) -> dict[str, Any]:
    """Return times and ratios of one shape; every block has its input in the layout that suits it better."""
    space, time_channels, slices, side, batch = shape
    found: dict[str, Any] = {}
    for kind, training in (("forward", False), ("training step", True)):
        taken: dict[tuple[str, str], list[float]] = {}
        blocks = contestants(space, time_channels)
        for _ in range(rounds + 1):
            for name, (block, channels) in blocks.items():
                for layout, memory in LAYOUTS.items():
                    x = torch.rand(batch, channels, slices, side, side).contiguous(memory_format=memory)
                    began = time.process_time()
                    run(block, x, training)
                    taken.setdefault((name, layout), []).append((time.process_time() - began) * 1e3)
        layouts, best = in_best_layouts({case: times[1:] for case, times in taken.items()})
        found[kind] = {
            "ms": {name: round(statistics.median(times), 2) for name, times in best.items()},
            "times": {
                name: round(statistics.median(b / a for a, b in zip(best["hds"], times, strict=True)), 2)
                for name, times in best.items()
                if name != "hds"
            },
            "layouts": layouts,
        }
    found["parameters"] = {name: num_parameters(block) for name, (block, _) in blocks.items()}
    return found


@pytest.mark.parametrize("kind", ["hds", "equal width", "equal parameters"])
def test_a_block(benchmark: Any, kind: str) -> None:
    block, channels = contestants(32, 16)[kind]
    benchmark(run, block, torch.rand(1, channels, 4, 8, 8), True)


# Memory ---------------------------------------------------------------------------------------------------------------


def classifiers(frames: int, side: int) -> dict[str, Callable[[], torch.nn.Module]]:
    """Return makers of the classifiers of bench_learned.py: of 86,000 parameters each."""

    def sized(kind: type[torch.nn.Module]) -> torch.nn.Module:
        def made(width: float) -> torch.nn.Module:
            return neural.Classifier(kind(3, width), 6)

        return made(width_for(made, 86_000))

    return {
        "mch": lambda: neural.Classifier(neural.MCH(3, 0.5, size=(frames, side, side)), 6, prototypes=8),
        "resnet3d": lambda: sized(ResNet3D),
        "average": lambda: sized(FrameAverage),
    }


def held(kind: str) -> int:
    """Return bytes that this process holds (VmRSS) or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def train_here(model: str, batch: int, frames: int, side: int) -> dict[str, int]:
    """Train a few steps in this process; return what it held."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = classifiers(frames, side)[model]()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    clips, labels = torch.rand(batch, 3, frames, side, side), torch.arange(batch) % 6
    before = held("VmRSS")
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(clips), labels).backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    return {"peak_bytes": held("VmHWM"), "training_bytes": held("VmHWM") - before, "parameters": num_parameters(net)}


def memory(rounds: int) -> dict[str, Any]:
    """Return the least of a few fresh processes for each model and shape: what is there by chance counts for none."""
    found: dict[str, Any] = {}
    for batch, frames, side in CLIPS:
        shape = f"{batch} clips of {frames} x {side} x {side}"
        for model in classifiers(frames, side):
            asked = [sys.executable, __file__, "--train", model, str(batch), str(frames), str(side)]
            runs = [json.loads(subprocess.run(asked, check=True, capture_output=True).stdout) for _ in range(rounds)]
            found.setdefault(shape, {})[model] = min(runs, key=lambda one: one["training_bytes"])
    return found


def main(arguments: list[str]) -> int:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--part", action="append", choices=("answers", "blocks", "memory"))
    parser.add_argument("--train", nargs=4, metavar=("MODEL", "BATCH", "FRAMES", "SIDE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.train:
        json.dump(train_here(given.train[0], *map(int, given.train[1:])), sys.stdout)
        return 0
    sys.path.insert(0, str(HERE / "rivals"))
    from machine import provenance
    from saving import save

    torch.set_num_threads(1)
    told = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in given.part or ("answers", "blocks", "memory"):
        if part == "answers":
            values = {f"clips of {f} x {side} x {side}": answers(f, side, 2 * given.rounds) for f, side in SEEN}
        elif part == "blocks":
            values = {"{} + {} channels, {} x {} x {}".format(*s[:4], s[3]): measure(s, given.rounds) for s in SHAPES}
        else:
            values = memory(3)
        told[part] = {
            "rounds": {"answers": 2 * given.rounds, "blocks": given.rounds, "memory": 3}[part],
            "values": values,
            **provenance("torch"),
        }
        save(RESULTS, told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
