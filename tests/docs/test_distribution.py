"""What a wheel and an sdist hold."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Names in the wheel, and in the sdist without its top folder."""
    target = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(target)], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,) = target.glob("*.whl")
    (sdist,) = target.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as tar:
        return set(archive.namelist()), {name.partition("/")[2] for name in tar.getnames()}


@pytest.mark.slow
def test_the_wheel_holds_the_clip_its_credits_the_licences_and_the_type_marker(built):
    wheel, _ = built
    for name in (
        "data/big_buck_bunny.mp4",
        "data/edh_nmnist.safetensors",
        "data/CREDITS.txt",
        "py.typed",
        "__init__.py",
    ):
        assert f"hyperframes/{name}" in wheel
    for name in ("LICENSE", "NOTICE"):
        assert any(entry.endswith(f".dist-info/licenses/{name}") for entry in wheel), name
    assert {entry.partition("/")[0] for entry in wheel if ".dist-info" not in entry} == {"hyperframes"}


@pytest.mark.slow
def test_the_sdist_holds_what_is_needed_to_build_and_to_test(built):
    _, sdist = built
    for name in ("pyproject.toml", "Makefile", "README.md", "LICENSE", "NOTICE", "src/hyperframes/data/big_buck_bunny.mp4",
                 "tests/conftest.py", "docs/requirements.toml", "tools/requirements.py", "examples/own_operator.py"):  # fmt: skip
        assert name in sdist
    assert not [name for name in sdist if name.startswith((".venv", ".git/")) or "__pycache__" in name]
