"""What is public is listed, in order, and is there."""

import ast
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/hyperframes"


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PUBLIC = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(PACKAGE).parts)
]


def public_names(tree):
    """Names that a module defines at its top level and does not hide."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def listed(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            return ast.literal_eval(node.value)
    return None


@pytest.mark.parametrize("path", PUBLIC, ids=module_name)
def test_a_module_lists_its_public_functions_and_classes_in_order(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = listed(tree)
    defined = {
        n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")
    }
    if names is None:
        assert not defined, f"{sorted(defined)} are public, but there is no __all__"
        return
    assert list(names) == sorted(names, key=lambda name: name.casefold()) or list(names) == sorted(names)
    assert len(set(names)) == len(names)
    assert defined <= set(names), "public by name but not listed"


@pytest.mark.parametrize("name", [module_name(p) for p in PUBLIC if p.name == "__init__.py"])
def test_every_listed_name_of_a_package_is_there(name):
    module = importlib.import_module(name)
    for exported in getattr(module, "__all__", []):
        assert getattr(module, exported, None) is not None, exported


def test_the_package_lists_its_names():
    package = importlib.import_module("hyperframes")
    assert set(package.__all__) <= set(dir(package))
    assert "run" in package.__all__
