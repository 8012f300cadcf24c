"""For which task: projections of features by task, fitted on labelled descriptors or guessed from the task's text.

A projection P (512, 256) says what matters for a task: descriptors are alike for it when their features times P are. All in
closed form; networks that make projections from texts plug in through `registry.generators` and `Tasks.use`.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.registry import generators
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.generator import RidgeGenerator
from hyperframes.semantic.projection import NUM_FEATURES, NUM_PROJECTED, Projection
from hyperframes.semantic.task_folder import TASKS_VARIABLE, TaskFolder
from hyperframes.semantic.text import get_encoder

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hyperframes.frames import Array
    from hyperframes.semantic.descriptor import Descriptor
    from hyperframes.semantic.generator import TaskGenerator
    from hyperframes.semantic.text import TextEncoder

__all__ = ["NUM_PROJECTED", "TASKS", "Projection", "Tasks", "ZeroShotWarning", "fit_projection"]

_SHRINKAGE: Final = 0.05


class ZeroShotWarning(UserWarning):
    """A task's projection is guessed from its text alone."""


def fit_projection(task: str, features: Array, labels: Sequence[Hashable]) -> Projection:
    """Return the projection that tells labels apart best: discriminant directions, in closed form.

    Directions are scaled by the share of their spread that lies between labels, after the spread within labels (shrunk
    towards a sphere by a twentieth) is made equal in all directions. The sum of squares of the matrix is 1; columns beyond the
    number of labels less one are zero.

    Parameters
    ----------
    task : str
        Its name or description.
    features : (n, 512) array
        Of descriptors.
    labels : (n,) sequence
        At least two different ones.

    Returns
    -------
    Projection

    Raises
    ------
    FrameError
        If there are not as many labels as features, fewer than two different ones, or no difference between them.

    References
    ----------
    .. [1] R. A. Fisher, "The use of multiple measurements in taxonomic problems", Annals of Eugenics 7, 1936.
       DOI: 10.1111/j.1469-1809.1936.tb02137.x
    """
    values = np.asarray(features, np.float64)
    names = list(dict.fromkeys(labels))
    if values.shape != (len(labels), NUM_FEATURES) or len(names) < 2:
        raise FrameError(
            f"a projection is fitted to (n, {NUM_FEATURES}) features with n labels, two different ones or more: got "
            f"{values.shape} and {len(labels)} labels, {len(names)} different",
            expected=(len(labels), NUM_FEATURES),
            got=values.shape,
        )
    members = [np.array([label == name for label in labels]) for name in names]
    means = np.stack([values[member].mean(axis=0) for member in members])
    sizes = np.array([member.sum() for member in members], np.float64) / len(values)
    within = values - means[np.array([names.index(label) for label in labels])]
    covariance = within.T @ within / len(values)
    scale = max(float(np.trace(covariance)) / NUM_FEATURES, 1e-9)
    covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * scale * np.eye(NUM_FEATURES)
    spread, axes = np.linalg.eigh(covariance)
    whiten = (axes / np.sqrt(spread)) @ axes.T
    between = np.sqrt(sizes)[:, None] * (means - sizes @ means) @ whiten
    _, strength, directions = np.linalg.svd(between, full_matrices=False)
    kept = min(len(names) - 1, NUM_PROJECTED)
    strength = strength[:kept] ** 2
    matrix = np.zeros((NUM_FEATURES, NUM_PROJECTED))
    matrix[:, :kept] = whiten @ directions[:kept].T * np.sqrt(strength / (1 + strength))
    norm = float(np.sqrt((matrix**2).sum()))
    if norm < 1e-9:
        raise FrameError(f"the features of task {task!r} are the same for all labels", got=names)
    return Projection(task, _signed(matrix / norm))


class Tasks:
    """The projections by task: fitted, registered, or else guessed from the text of the task.

    Parameters
    ----------
    encoder : TextEncoder, optional
        By default `MiniLm` from the folders of ``HYPERFRAMES_MODELS``, loaded when it is first needed.
    folder : path, optional
        Where projections are kept, version by version; by default in memory only.

    Notes
    -----
    What is guessed is made by a `TaskGenerator`, by default `RidgeGenerator`: of the 80 tasks "a photo of a NAME" of the
    detector's classes, whose projection is the class's score, and of all that were fitted.
    """

    def __init__(self, encoder: TextEncoder | None = None, folder: str | os.PathLike[str] | None = None) -> None:
        self._encoder = encoder
        self._folder = None if folder is None else TaskFolder(folder)
        self._generator: TaskGenerator = RidgeGenerator()
        self._known: dict[str, Projection] = {}
        self._guessed: dict[str, Projection] = {}
        self._vectors: dict[str, Array] = {}
        self._lock = threading.RLock()

    @property
    def names(self) -> list[str]:
        """Tasks with a projection of their own."""
        return sorted({*self._known, *(self._folder.names if self._folder is not None else ())})

    def versions(self, task: str) -> list[str]:
        """Return the versions of a task's projections that are kept, oldest first."""
        if self._folder is not None:
            return self._folder.versions(task)
        return [self._known[task].version] if task in self._known else []

    def use(self, generator: str | TaskGenerator) -> None:
        """Let what is not fitted be guessed by another generator: one of `registry.generators` by name, or an object.

        Raises
        ------
        RegistryError
            If no generator has the name.
        """
        made = generators.get(generator)() if isinstance(generator, str) else generator
        with self._lock:
            self._generator = made
            self._guessed.clear()

    def register(self, projection: Projection) -> Projection:
        """Add a projection, in place of an older one of the same task, which a folder keeps as its earlier version.

        Raises
        ------
        SinkError
            If there is a folder and it cannot be written.
        """
        if self._folder is not None:
            self._folder.put(projection)
        with self._lock:
            self._known[projection.task] = projection
            self._guessed.clear()
        return projection

    def fit(self, task: str, descriptors: Sequence[Descriptor], labels: Sequence[Hashable]) -> Projection:
        """Fit a projection to labelled descriptors and add it; see `fit_projection`."""
        features = np.stack([d.semantic_features for d in descriptors]) if descriptors else np.zeros((0, NUM_FEATURES))
        return self.register(fit_projection(task, features, labels))

    def projection(self, task: str, version: str | None = None) -> Projection:
        """Return the projection of a task, by its name or description.

        Parameters
        ----------
        task : str
            Its name or description.
        version : str, optional
            As in `Descriptor.tasks`: one that is kept; by default the newest, or what is guessed.

        Raises
        ------
        FrameError
            If it has none of its own and the text means nothing to the encoder, or there is no such version.
        SourceError
            If it has none of its own and there is no encoder, or a file of the folder is damaged.
        """
        with self._lock:
            found = self._own(task, version)
            if found is not None:
                return found
            if task not in self._guessed:
                self._guessed[task] = self._guess(task, [name for name in self.names if name != task])
            found = self._guessed[task]
        if version is not None and found.version != version:
            raise FrameError(
                f"task {task!r} has no projection of version {version!r}: expected one of "
                f"{', '.join([*self.versions(task), found.version])}",
                expected=self.versions(task),
                got=version,
            )
        return found

    def _own(self, task: str, version: str | None = None) -> Projection | None:
        """Return a projection that was fitted or registered, None where there is none (of a version)."""
        found = self._known.get(task)
        if self._folder is not None and (found is None or version not in {None, found.version}):
            found = self._folder.find(task, version)
            if found is not None and version is None:
                self._known[task] = found
        return found if found is not None and version in {None, found.version} else None

    def project(self, features: Array, task: str) -> Array:
        """Return (..., 256) float32 for (..., 512) features; a `ZeroShotWarning` says so where it is only guessed."""
        found = self.projection(task)
        if found.zero_shot:
            warnings.warn(
                f"task {task!r} is zero-shot: its projection is guessed from its text; fit it on labelled descriptors with "
                "hyperframes.semantic.TASKS.fit",
                ZeroShotWarning,
                stacklevel=3,
            )
        return np.asarray(features, np.float32) @ found.matrix

    def leave_one_out(self) -> dict[str, float]:
        """Return for each fitted task how well the others guess it: the cosine of ``P P^T``, in [0, 1]."""
        found = {}
        for task in self.names:
            guess = self._guess(task, [name for name in self.names if name != task]).matrix.astype(np.float64)
            own = self.projection(task).matrix.astype(np.float64)
            sizes = [float(((m.T @ m) ** 2).sum()) for m in (guess, own)]
            found[task] = float(((guess.T @ own) ** 2).sum() / np.sqrt(max(1e-18, sizes[0] * sizes[1])))
        return found

    def _guess(self, task: str, known: list[str]) -> Projection:
        classes = self._text(*(f"a photo of a {name}" for name in COCO_CLASSES))
        texts = self._text(*known) if known else np.zeros((0, classes.shape[1]))
        matrices = [projection.matrix for name in known if (projection := self._own(name)) is not None]
        made = self._generator.generate(self._text(task)[0], texts, matrices, classes)
        return Projection(task, _signed(np.asarray(made)), zero_shot=True)

    def _text(self, *texts: str) -> Array:
        """Return (n, 384) float64 sentence vectors; each text is encoded once."""
        self._encoder = self._encoder or get_encoder()
        missing = [text for text in texts if text not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encoder.encode(missing), strict=True))
        return np.stack([self._vectors[text] for text in texts]).astype(np.float64)


TASKS: Final = Tasks(folder=os.environ.get(TASKS_VARIABLE) or None)
"""The registry that `Descriptor.project` uses; kept in the folder that ``HYPERFRAMES_TASKS`` names, if it is set."""


def _signed(matrix: Array) -> Array:
    """Return the matrix with each column's largest number positive: eigenvectors come with either sign."""
    largest: Any = matrix[np.abs(matrix).argmax(axis=0), np.arange(matrix.shape[1])]
    return np.asarray(matrix * np.where(largest < 0, -1, 1))
