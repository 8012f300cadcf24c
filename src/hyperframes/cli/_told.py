"""What people are told of a live run while it goes on, and what makes one a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperframes.cli import _show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.errors import HyperframesError

__all__ = ["Teller", "check_results"]


class Teller:
    """Says on stderr what happens to streams, and warnings; of hyperframes that fail the first, second, fourth, ...

    Parameters
    ----------
    quiet : bool
        Whether only warnings are told.
    """

    def __init__(self, *, quiet: bool) -> None:
        from hyperframes.drivers.live_results import Failures

        self._quiet = quiet
        self._failures = Failures()

    @property
    def first_error(self) -> str:
        """What the first operator that failed said."""
        return self._failures.first

    def observe(self, observation: dict[str, Any]) -> None:
        """Tell one observation, where it is for people."""
        kind = observation["kind"]
        if kind == "warning":
            _show.tell("warning", observation["message"])
        elif failed := self._failures.note(observation):
            _show.tell("warning", failed)
        elif self._quiet:
            return
        elif kind == "stream" and observation["state"] != "added":
            reason = "" if observation["reason"] in {"", None, observation["state"]} else f": {observation['reason']}"
            spec = f" ({observation['spec']})" if observation["state"] == "connected" else ""
            _show.tell(observation["stream"], f"{observation['state']}{spec}{reason}")
        elif kind in {"degraded", "recovered"}:
            _show.tell(kind, observation["rule"])


def check_results(stats: dict[str, Any], failures: Sequence[HyperframesError], first_error: str) -> None:
    """Raise what makes a live run a failure though it came to its end: an output that was given up, or no result at all.

    Parameters
    ----------
    stats : dict
        The last ones.
    failures : sequence of HyperframesError
        Why outputs were given up.
    first_error : str
        Of operators, where it is known.
    """
    if failures:
        raise _show.RunFailed(str(failures[0]), hint=failures[0].hint)
    if not stats["delivered"] and (failed := stats["dropped"].get("failed")):
        why = f": {first_error}" if first_error else ""
        raise _show.RunFailed(
            f"there is no result: operators failed on all {failed} frames that they were given{why}",
            hint="Run the same operators on a file: hyperframes run FILE null: --operator ... --debug",
        )
