"""Where the time and the memory of an answer go, operator by operator, as torch's profiler tells."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Cost", "profiled"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one kind of operator takes in one answer."""

    name: str
    calls: int
    milliseconds: float
    """Of itself, without the operators that it calls; of the accelerator where the network is on one."""
    allocated_bytes: int
    """That it and the operators that it calls asked for and did not give back, all calls together."""


@torch.no_grad()
def profiled(net: nn.Module, x: torch.Tensor) -> tuple[Cost, ...]:
    """Return the costs of one answer of `net` to `x`, dearest first; the second call, as the first sets things up.

    Parameters
    ----------
    net : Module
    x : tensor
        On the device of `net`.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # or the profiler tells its own steps on stderr
    accelerated = x.device.type == "cuda"
    net(x)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if accelerated else [])]
    with profile(activities=activities, profile_memory=True) as seen:
        net(x)
    found = []
    for event in seen.key_averages():
        time = event.self_device_time_total if accelerated else event.self_cpu_time_total
        memory = event.device_memory_usage if accelerated else event.cpu_memory_usage
        if event.key.startswith("aten::"):
            found.append(Cost(event.key.removeprefix("aten::"), event.count, time / 1e3, max(0, memory)))
    return tuple(sorted(found, key=lambda cost: -cost.milliseconds))
