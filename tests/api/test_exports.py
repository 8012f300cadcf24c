"""What is public is listed, in order, and is there."""

import ast
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/hyperframes"
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__main__.py"]
DOORS = [path for path in MODULES if path.name == "__init__.py" or path.parent == PACKAGE]
"""What strangers import from: the packages, and the modules beside them."""


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def listed(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def order(name):
    """Constants, then classes, then functions: the order that ruff keeps."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


def public_names(path, tree):
    """Functions and classes a module defines, and what a package takes from its own modules."""
    own = f"{module_name(path)}."
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(own):
            yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_all_is_in_order_and_names_nothing_twice(path):
    names = listed(ast.parse(path.read_text(encoding="utf-8"))) or []
    assert names == sorted(set(names), key=order)


@pytest.mark.parametrize("path", DOORS, ids=module_name)
def test_all_is_complete_where_strangers_import_from(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {name for name in public_names(path, tree) if not name.startswith("_")}
    assert found - set(listed(tree) or []) - HIDDEN.get(module_name(path), set()) == set()


HIDDEN = {
    "hyperframes.cli": {"main"},  # the entry point of the command, not of programs
}


@pytest.mark.parametrize("name", [module_name(path) for path in DOORS])
def test_every_listed_name_is_there(name):
    module = importlib.import_module(name)
    assert [exported for exported in getattr(module, "__all__", []) if not hasattr(module, exported)] == []


@pytest.mark.parametrize("name", ["run", "open", "stream", "start", "operator", "Pipeline"])
def test_the_names_that_the_contract_promises_are_public(name):
    package = importlib.import_module("hyperframes")
    assert name in package.__all__
    assert callable(getattr(package, name))


def test_dir_shows_every_public_name():
    package = importlib.import_module("hyperframes")
    assert set(package.__all__) <= set(dir(package))


def test_dir_of_the_package_lists_what_is_public_and_nothing_it_imports_itself():
    import hyperframes

    shown = [name for name in dir(hyperframes) if not name.startswith("__")]
    assert shown == sorted(hyperframes.__all__)
