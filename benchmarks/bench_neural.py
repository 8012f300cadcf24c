"""Two blocks of HDSConv against the 3-D residual block of two convolutions, at equal width and at equal parameters.

    python benchmarks/bench_neural.py [--rounds 9]

prints JSON: for each shape (channels of space and time, slices, side, batch), processor milliseconds of a forward pass and
of a training step on one thread, medians over rounds in which the three take turns, and how many times as long the others took.
"""

import json
import statistics
import sys
import time

import pytest
import torch

from hyperframes import neural
from hyperframes.neural.baselines import _Block as Block
from hyperframes.neural.baselines import num_parameters

SHAPES = ((128, 64, 4, 32, 1), (256, 64, 4, 16, 1))


def residual(channels):
    """One block of the 3-D ResNet, of `channels` in and out."""
    return Block(channels, channels, 1, 3)


def contestants(space, time_channels):
    ours = torch.nn.Sequential(*(neural.HyperBlock(space, time_channels) for _ in range(2)))
    wanted = num_parameters(ours)
    equal = min(range(8, 128), key=lambda c: abs(num_parameters(residual(c)) - wanted))
    width = space + time_channels
    return {"hds": (ours, width), "equal width": (residual(width), width), "equal parameters": (residual(equal), equal)}


def run(block, x, training):
    block.train(training)
    if not training:
        with torch.no_grad():
            return block(x)
    block.zero_grad(set_to_none=True)
    return block(x).square().mean().backward()


def measure(shape, rounds):
    space, time_channels, slices, side, batch = shape
    found = {}
    for kind, training in (("forward", False), ("training step", True)):
        taken = {}
        blocks = contestants(space, time_channels)
        for _ in range(rounds + 1):
            for name, (block, channels) in blocks.items():
                x = torch.rand(batch, channels, slices, side, side)
                began = time.process_time()
                run(block, x, training)
                taken.setdefault(name, []).append((time.process_time() - began) * 1e3)
        told = {name: round(statistics.median(times[1:]), 2) for name, times in taken.items()}
        found[kind] = told | {f"{name}, times": round(told[name] / told["hds"], 2) for name in told if name != "hds"}
    return found


@pytest.mark.parametrize("kind", ["hds", "equal width", "equal parameters"])
def test_a_block(benchmark, kind):
    block, channels = contestants(32, 16)[kind]
    benchmark(run, block, torch.rand(1, channels, 4, 8, 8), True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    count = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 9
    json.dump({str(shape): measure(shape, count) for shape in SHAPES}, sys.stdout, indent=2)
