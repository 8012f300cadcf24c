"""The page on trainings: its example is read as it stands, and no key is missing."""

import dataclasses
import re
import typing

import pytest


@pytest.fixture
def page(root):
    return (root / "docs/learning.md").read_text()


def test_the_example_is_a_training(page, tmp_path):
    from hyperframes.neural.train import read_config

    path = tmp_path / "fights.toml"
    path.write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    config = read_config(path)
    assert (config.data.groups, config.model.encoder, config.train.steps) == (["scene", "sequence"], "mch", 500)


def test_every_key_stands_on_the_page(page):
    from hyperframes.neural.train.config import TrainingConfig

    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    for table in typing.get_type_hints(TrainingConfig).values():
        assert {field.name for field in dataclasses.fields(table)} - named == set()


def test_every_command_on_the_page_has_the_options_it_is_shown_with(page, root):
    commands = (root / "docs/commands.md").read_text()
    for name, rest in re.findall(r"(?m)^    hyperframes (\w+)(.*)$", page):
        section = commands.partition(f"\n## hyperframes {name}\n")[2].partition("\n## ")[0]
        for option in re.findall(r"--[a-z]+", rest):
            assert option in section, (name, option)
