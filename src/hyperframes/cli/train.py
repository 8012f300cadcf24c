"""``hyperframes train``: learned operators from a configuration."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated, Any

import typer

from hyperframes.cli import _options  # noqa: TC001 - typer reads the annotations

__all__ = ["train"]


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Data, model, training, losses and output.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted training stopped, bit for bit.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take so many steps at most now; go on later with --resume.")
    ] = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Train a model, watch it with samples kept aside, and leave best.safetensors and last.safetensors.

    Example: hyperframes train fights.toml
    """
    from hyperframes.neural.train import fit, read_config

    watch = _Lines(quiet)
    result = fit(read_config(config), resume=resume, steps=steps, observe=watch)
    watch.finish()
    if as_json:
        print(
            json.dumps(
                {
                    "steps": result.steps,
                    "seconds": result.seconds,
                    "best": str(result.best),
                    "last": str(result.last),
                    "scores": result.scores,
                    "alarms": list(result.alarms),
                    "stopped_early": result.stopped_early,
                }
            )
        )
        return
    told = ", ".join(f"{name} {value:.3f}" for name, value in result.scores.items())
    early = ", stopped early" if result.stopped_early else ""
    print(f"{result.best}: {result.steps} steps in {result.seconds:.0f} s{early}" + (f"; {told}" if told else ""))


class _Lines:
    """Progress on stderr: one line that changes on a terminal, else one every ten seconds; scores and alarms always."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._first: int | None = None
        self._alarms: set[str] = set()

    def __call__(self, told: dict[str, Any]) -> None:
        """Say what a training tells."""
        if told["kind"] == "alarm":
            kind = told["text"].split(":")[1].split()[0]
            if kind not in self._alarms:  # once each: a young model gives them at every look
                self._alarms.add(kind)
                self._say("warning: " + told["text"])
        elif self._quiet:
            return
        elif told["kind"] == "watched":
            scores = ", ".join(f"{name} {value:.3f}" for name, value in told["scores"].items())
            self._say(f"step {told['step']}: {scores}" if scores else f"step {told['step']}")
        elif self._live or time.monotonic() - self._last >= 10:
            self._last = time.monotonic()
            text = self._step(told)
            print(
                f"\r\x1b[K{text}" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True
            )

    def _step(self, told: dict[str, Any]) -> str:
        if self._first is None:
            self._first = told["step"] - 1
        rate = (told["step"] - self._first) / max(1e-9, time.monotonic() - self._began)
        left = (told["steps"] - told["step"]) / max(rate, 1e-9)
        return (
            f"step {told['step']:,} of {told['steps']:,}, loss {told['loss']:.4f}, learning rate "
            f"{told['learning_rate']:.2g}, {rate:.1f} steps/s, {left:.0f} s left"
        )

    def _say(self, text: str) -> None:
        print(("\r\x1b[K" if self._live else "") + text, file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Leave the line of progress."""
        if self._live and not self._quiet:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
