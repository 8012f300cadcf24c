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

    Attributes
    ----------
    first_error : str
        Of operators.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._failed = 0
        self.first_error = ""

    def observe(self, observation: dict[str, Any]) -> None:
        """Tell one observation, where it is for people."""
        kind = observation["kind"]
        if kind == "warning":
            _show.tell("warning", observation["message"])
        elif kind == "dropped" and observation["reason"] == "failed":
            self._tell_failed(observation)
        elif self._quiet:
            return
        elif kind == "stream" and observation["state"] != "added":
            reason = "" if observation["reason"] in {"", None, observation["state"]} else f": {observation['reason']}"
            spec = f" ({observation['spec']})" if observation["state"] == "connected" else ""
            _show.tell(observation["stream"], f"{observation['state']}{spec}{reason}")
        elif kind in {"degraded", "recovered"}:
            _show.tell(kind, observation["rule"])

    def _tell_failed(self, observation: dict[str, Any]) -> None:
        self._failed += 1
        error = observation.get("error") or "an operator failed"
        self.first_error = self.first_error or error
        if self._failed & (self._failed - 1) == 0:  # no storm of warnings
            times = "" if self._failed == 1 else f" ({self._failed} hyperframes so far)"
            _show.tell("warning", f"{', '.join(observation['streams'])}: {error}{times}")


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
