"""What a new task's projection is, told by its text: in closed form, from the tasks that are known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hyperframes.registry import networks
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.projection import NUM_FEATURES, NUM_PROJECTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["NetworkGenerator", "RidgeGenerator", "TaskGenerator"]

_RIDGE: Final = 0.1


class TaskGenerator(Protocol):
    """What makes the projection of a task that was never fitted from the vector of its text.

    Register a factory of it with `hyperframes.registry.generators`, or as an entry point of ``hyperframes.generators``, and
    choose it with `Tasks.use`.
    """

    def generate(self, text: Array, known: Array, matrices: Sequence[Array], classes: Array) -> Array:
        """Return the projection, (512, 256).

        Parameters
        ----------
        text : (384,) array
            Sentence vector of the task.
        known : (k, 384) array
            Those of the tasks that were fitted.
        matrices : sequence of (512, 256) arrays
            Their projections.
        classes : (80, 384) array
            Sentence vectors of "a photo of a NAME" of the detector's classes; their scores are features 0 to 79.
        """
        ...


class RidgeGenerator:
    """Ridge regression from text vectors to the known tasks' ``P P^T``, brought back to a matrix by its eigenvectors.

    The weights of the known tasks and of the detector's classes, whose projection is their score, are those of kernel ridge
    regression in the space of sentences; negative ones are 0, and their sum is 1.

    References
    ----------
    .. [1] C. Saunders, A. Gammerman, V. Vovk, "Ridge Regression Learning Algorithm in Dual Variables", ICML 1998.
    """

    def generate(self, text: Array, known: Array, matrices: Sequence[Array], classes: Array) -> Array:
        """Return the projection, (512, 256) float64: of low rank, the strongest direction first."""
        texts = np.concatenate([classes, known]).astype(np.float64)
        weights = np.linalg.solve(texts @ texts.T + _RIDGE * np.eye(len(texts)), texts @ text)
        weights = np.maximum(weights, 0)
        total = float(weights.sum())
        shares = weights / total if total > 1e-9 else np.full(len(weights), 1 / len(weights))
        metric = np.zeros((NUM_FEATURES, NUM_FEATURES))
        numbers = np.arange(len(COCO_CLASSES))
        metric[numbers, numbers] = shares[: len(classes)]
        for share, matrix in zip(shares[len(classes) :], matrices, strict=True):
            wide = matrix.astype(np.float64)
            metric += share * (wide @ wide.T)
        strength, axes = np.linalg.eigh(metric)
        best = np.argsort(-strength, kind="stable")[:NUM_PROJECTED]
        made: Any = axes[:, best] * np.sqrt(np.maximum(strength[best], 0))
        return np.asarray(made)


class NetworkGenerator:
    """A network that was trained to make projections from texts, through `registry.networks`: for `Tasks.use`.

    Parameters
    ----------
    weights : path
        A file of weights of the kind ``task_generator``.

    Raises
    ------
    RegistryError
        If nothing here runs networks of that kind.
    SourceError
        If the file cannot be read.
    """

    def __init__(self, weights: str | os.PathLike[str]) -> None:
        self._network = networks.get("task_generator")(os.fspath(weights))

    def generate(self, text: Array, known: Array, matrices: Sequence[Array], classes: Array) -> Array:
        """Return the projection, (512, 256), that the network makes of the text alone."""
        return np.asarray(self._network(np.asarray(text, np.float32), "matrix"))
