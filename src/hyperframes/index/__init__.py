"""Descriptors kept and found again: a dataset with versions, exact and indexed search."""

from hyperframes.index.copies import Copy, Tracks, find_copies
from hyperframes.index.drift import FIFTEEN_PERCENT, Baseline, Drift, DriftRule
from hyperframes.index.duplicates import Pair, find_duplicates
from hyperframes.index.integrity import find_damaged
from hyperframes.index.labels import Fitted, Label, fit_task, read_labels
from hyperframes.index.position import Position
from hyperframes.index.search import Coverage, Hit, Index, Recall, open_index
from hyperframes.index.store import Added, Store, Version
from hyperframes.index.where import COLUMNS, check_where

__all__ = [
    "COLUMNS",
    "FIFTEEN_PERCENT",
    "Added",
    "Baseline",
    "Copy",
    "Coverage",
    "Drift",
    "DriftRule",
    "Fitted",
    "Hit",
    "Index",
    "Label",
    "Pair",
    "Position",
    "Recall",
    "Store",
    "Tracks",
    "Version",
    "check_where",
    "find_copies",
    "find_damaged",
    "find_duplicates",
    "fit_task",
    "open_index",
    "read_labels",
]
