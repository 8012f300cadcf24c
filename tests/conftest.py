"""What every test may use: the real files, hypothesis profiles, and the rule that CI never skips them."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile("check", max_examples=15, deadline=None, suppress_health_check=_QUIET)
settings.register_profile("full", max_examples=200, deadline=None, suppress_health_check=_QUIET)
settings.register_profile("nightly", max_examples=5000, deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPERFRAMES_HYPOTHESIS", "check"))


@pytest.fixture(autouse=True, scope="session")
def _cache_of_its_own(tmp_path_factory):
    """Keep the tuning of whoever runs the tests out of them, and theirs out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERFRAMES_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


IN_CI = os.environ.get("CI") == "true"


def media_root() -> Path | None:
    """Return the folder of real files, or None where it is not set."""
    root = os.environ.get("HYPERFRAMES_TEST_MEDIA")
    return Path(root).resolve() if root else None


@pytest.fixture(scope="session")
def media() -> Path:
    """The folder of real videos, odd files and recordings."""
    root = media_root()
    if root is None or not root.is_dir():
        reason = "HYPERFRAMES_TEST_MEDIA does not name the folder of real files"
        pytest.fail(reason) if IN_CI else pytest.skip(reason)
    return root
