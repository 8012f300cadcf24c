"""The console beside a run: started where an option asks for it, and handed to the run as an instrument."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hyperframes.cli import _show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.console import Console

__all__ = ["serving"]


@contextlib.contextmanager
def serving(address: str | None, *, quiet: bool = False) -> Iterator[Console | None]:
    """Serve at `address` meanwhile; nothing happens without one.

    Raises
    ------
    PipelineError
        If the address is none, taken, or needs a token.
    MissingExtraError
        Without the 'console' extra.
    """
    if address is None:
        yield None
        return
    from hyperframes.console import Console

    with Console(address) as console:
        if not quiet:
            _show.tell("serving", f"{console.url}/metrics, /stats and /healthz")
        yield console
