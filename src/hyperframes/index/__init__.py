"""Descriptors kept and found again: a dataset with versions, exact and indexed search."""

from hyperframes.index.position import Position
from hyperframes.index.search import Hit, Index, open_index
from hyperframes.index.store import Added, Store, Version
from hyperframes.index.where import COLUMNS, check_where

__all__ = ["COLUMNS", "Added", "Hit", "Index", "Position", "Store", "Version", "check_where", "open_index"]
