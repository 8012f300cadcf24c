"""Projections kept in a folder: versions stay, nothing is overwritten or read where it is damaged; generators plug in."""

import numpy as np
import pytest
from tests.semantic.test_tasks import Words, descriptor, labelled

from hyperframes import registry
from hyperframes.errors import FrameError, RegistryError, SinkError, SourceError
from hyperframes.semantic import NetworkGenerator, Projection, TaskFolder, Tasks

pytestmark = pytest.mark.requirement("C121")


def projection(task, seed, **fields):
    return Projection(task, np.random.default_rng(seed).normal(size=(512, 256)), **fields)


def test_what_was_fitted_is_there_for_the_next_process_with_its_earlier_versions(tmp_path):
    tasks = Tasks(Words(), tmp_path)
    features, labels = labelled(np.random.default_rng(1))
    first = tasks.fit("find dry solder joints", [descriptor(f) for f in features], labels)
    second = tasks.register(projection("find dry solder joints", 2))
    tasks.register(second)  # the same again is no version
    later = Tasks(Words(), tmp_path)
    assert later.names == ["find dry solder joints"]
    assert later.versions("find dry solder joints") == [first.version, second.version]
    assert later.projection("find dry solder joints").version == second.version
    np.testing.assert_array_equal(later.projection("find dry solder joints", first.version).matrix, first.matrix)
    with pytest.raises(FrameError, match=f"has no projection of version 'none': expected one of {first.version}"):
        later.projection("find dry solder joints", "none")


def test_names_that_are_alike_are_kept_apart(tmp_path):
    folder = TaskFolder(tmp_path)
    for number, name in enumerate(("A b", "a-b", "a b", "检测")):
        folder.put(projection(name, number))
    assert folder.names == sorted(["A b", "a-b", "a b", "检测"])
    assert len({folder.find(name).version for name in folder.names}) == 4
    assert folder.find("none") is None


def test_what_another_process_kept_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    folder = TaskFolder(tmp_path)
    folder.put(projection("sort", 1))
    with monkeypatch.context() as patch:
        patch.setattr("hyperframes.semantic.task_folder._files", lambda _: [])  # it saw none
        folder.put(projection("sort", 2))
    assert folder.versions("sort") == [projection("sort", seed).version for seed in (1, 2)]


def test_a_damaged_file_and_a_folder_that_cannot_be_written_are_told(tmp_path):
    folder = TaskFolder(tmp_path / "tasks")
    folder.put(projection("sort", 1))
    (file,) = tmp_path.rglob("*.npz")
    file.write_bytes(b"damaged")
    with pytest.raises(SourceError, match=r"cannot read the projection in .*0001\.npz"):
        folder.find("sort")
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot keep the projection of task 'sort' in") as caught:
        Tasks(Words(), tmp_path / "file").register(projection("sort", 1))
    assert "HYPERFRAMES_TASKS" in caught.value.hint


class Same:
    """A generator that makes the same of every text, and remembers what it was told."""

    def generate(self, text, known, matrices, classes):
        self.told = (text.shape, known.shape, len(matrices), classes.shape)
        return np.eye(512, 256)


def test_another_generator_guesses_what_was_not_fitted(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.generators._registered, "same", Same)
    tasks = Tasks(Words(), tmp_path)
    own = tasks.register(projection("sort", 1))
    plain = tasks.projection("count bicycles")
    tasks.use("same")
    found = tasks.projection("count bicycles")
    assert found.zero_shot
    assert found.version != plain.version
    assert tasks._generator.told == ((384,), (1, 384), 1, (80, 384))
    assert tasks.projection("sort") is own
    tasks.use("ridge")
    assert tasks.projection("count bicycles").version == plain.version
    with pytest.raises(RegistryError, match="no task generator named 'rigde'"):
        tasks.use("rigde")


def test_a_trained_network_guesses_through_the_registry(monkeypatch):
    asked = []

    def network(path):
        return lambda given, output: asked.append((path, given.shape, output)) or np.eye(512, 256)

    monkeypatch.setattr(registry.networks, "_entry_points", {})
    monkeypatch.setitem(registry.networks._registered, "task_generator", network)
    tasks = Tasks(Words())
    tasks.use(NetworkGenerator("weights.safetensors"))
    assert tasks.projection("count bicycles").zero_shot
    assert asked == [("weights.safetensors", (384,), "matrix")]
