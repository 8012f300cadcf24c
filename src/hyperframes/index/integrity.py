"""Whether descriptors in a dataset are still what was written: what is stored twice is compared. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.index.vectors import NUM_FEATURES, comparable
from hyperframes.semantic import Descriptor

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["find_damaged"]

_SAME: Final = 1e-5  # another processor may add up in another order


def find_damaged(table: Any) -> list[str]:
    """Return the names of rows that are no longer what was written, each with what is wrong.

    Parameters
    ----------
    table : pyarrow Table
        Rows of a dataset with all columns of descriptors and ``vector``.

    Returns
    -------
    list of str
        One a damaged row: its source and time, and why.

    Notes
    -----
    A row is damaged if it is no valid descriptor, if its id does not follow from its identity, or if its vector does not
    follow from its features. A value among regions, anchors or looks that another valid one took the place of is not seen.
    """
    vectors = table.column("vector").combine_chunks()
    whole = vectors.is_valid().to_numpy(zero_copy_only=False)
    stored = np.full((len(table), NUM_FEATURES), np.nan, np.float32)
    stored[whole] = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, NUM_FEATURES)
    return [told for k in range(len(table)) if (told := _damage(table.slice(k, 1), stored[k]))]


def _damage(row: Any, vector: Array) -> str:
    """Return what is wrong with a row; nothing if nothing is."""
    columns = ("source", "start_seconds", "stop_seconds", "descriptor_id")
    source, start, stop, name = (row.column(column)[0].as_py() for column in columns)
    try:
        (found,) = Descriptor.from_arrow(row)
    except (FrameError, ValueError, TypeError, OverflowError) as error:
        why = f"it is no valid descriptor: {error}"
    else:
        close = np.allclose(comparable(found.semantic_features[None])[0], vector, rtol=0, atol=_SAME)
        if found.descriptor_id == name and close:
            return ""
        why = "its vector is not that of its features" if not close else "its id is not that of its content"
    return f"{source} {start} to {stop} s: {why}"[:300]
