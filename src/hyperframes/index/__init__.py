"""Descriptors kept and found again: a dataset with versions, exact and indexed search."""

from hyperframes.index.drift import FIFTEEN_PERCENT, Baseline, Drift, DriftRule
from hyperframes.index.duplicates import Pair, find_duplicates
from hyperframes.index.position import Position
from hyperframes.index.search import Coverage, Hit, Index, Recall, open_index
from hyperframes.index.store import Added, Store, Version
from hyperframes.index.where import COLUMNS, check_where

__all__ = [
    "COLUMNS",
    "FIFTEEN_PERCENT",
    "Added",
    "Baseline",
    "Coverage",
    "Drift",
    "DriftRule",
    "Hit",
    "Index",
    "Pair",
    "Position",
    "Recall",
    "Store",
    "Version",
    "check_where",
    "find_duplicates",
    "open_index",
]
