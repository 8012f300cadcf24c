"""What numpydoc lint cannot see: the parameters of dataclasses and of overloads."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import typing

import pytest

import hyperframes as hf
from hyperframes import registry


def documented(docstring):
    """Names in the section Parameters of a numpydoc docstring."""
    section = re.search(r"(?ms)^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", inspect.cleandoc(docstring))
    heads = re.findall(r"(?m)^(\w[\w, ]*) :", section[1]) if section else []
    return {name.strip() for head in heads for name in head.split(",")}


def classes():
    for module in pkgutil.walk_packages(hf.__path__, "hyperframes."):
        if not module.name.endswith("__main__"):
            for cls in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(cls) and cls.__module__ == module.name and documented(cls.__doc__ or ""):
                    yield cls


def test_classes_document_only_parameters_they_have():
    wrong = {cls.__qualname__: documented(cls.__doc__) - set(inspect.signature(cls).parameters) for cls in classes()}
    assert {name: names for name, names in wrong.items() if names} == {}
    assert len(wrong) > 5


@pytest.mark.parametrize("name", list(registry.operators))
def test_an_operator_documents_the_parameters_it_has(name):
    cls = registry.operators.get(name)
    fields = {field.name for field in dataclasses.fields(cls) if field.init}
    assert cls.__doc__.strip()
    assert documented(cls.__doc__) <= fields
    if documented(cls.__doc__):
        assert documented(cls.__doc__) == fields


@pytest.mark.parametrize("name", list(registry.operators))
def test_every_field_of_an_operator_is_explained(name):
    """In the section Parameters, or in a docstring below the field."""
    cls = registry.operators.get(name)
    source = "\n".join(inspect.getsource(base) for base in cls.__mro__ if dataclasses.is_dataclass(base))
    told = documented(cls.__doc__) | set(re.findall(r'(?m)^    (\w+): [^\n]*\n    """', source))
    assert {field.name for field in dataclasses.fields(cls) if field.init} - told == set()


def test_the_decorator_documents_the_options_of_its_overloads():
    options = {
        name
        for overload in typing.get_overloads(hf.operator)
        for name in inspect.signature(overload).parameters
        if name not in {"self", "function"}
    }
    assert documented(hf.operator.__doc__) - {"function"} == options
