"""The cache: what is put comes back, what fails costs nothing but speed, with a real Redis server."""

import os

import numpy as np
import pytest
from tests.index.library import span, spans
from tests.sinks.brokers import Server, program

from hyperframes.clock import ManualClock
from hyperframes.errors import SourceError
from hyperframes.semantic.cache import DiskCache, LayeredCache, MemoryCache, RedisCache, SemanticCache, cache_key


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redis")
    arguments = [program("redis-server"), "--save", "", "--bind", "127.0.0.1", "--dir", str(folder)]
    started = Server(folder, lambda _, port: [*arguments, "--port", str(port)])
    yield started
    started.stop()


@pytest.fixture
def redis(server):
    cache = RedisCache(f"redis://127.0.0.1:{server.port}/0", clock=ManualClock())
    yield cache
    cache.close()


@pytest.fixture(params=["memory", "disk", "redis", "layered"])
def cache(request, tmp_path):
    if request.param in {"memory", "disk"}:
        return MemoryCache() if request.param == "memory" else DiskCache(tmp_path / "cache")
    shared = request.getfixturevalue("redis")
    return shared if request.param == "redis" else LayeredCache(MemoryCache(), DiskCache(tmp_path / "cache"), shared)


@pytest.mark.requirement("C110")
def test_arrays_and_descriptors_come_back_as_they_were(cache):
    semantic = SemanticCache(cache)
    several = [*spans(), span("b.mp4", text_vector=np.ones(384, np.float16), text_model="encoder 1")]
    anchors, descriptors = (cache_key("c0ffee", kind, repr(cache)) for kind in ("anchors", "descriptors"))
    assert semantic.get_arrays(anchors) is semantic.get_descriptors(descriptors) is None
    arrays = {"seconds": np.arange(3.0), "rest": np.array("[1, 2]")}
    semantic.put_arrays(anchors, arrays)
    semantic.put_descriptors(descriptors, several)
    found = semantic.get_arrays(anchors)
    assert {name: value.tolist() for name, value in found.items()} == {"seconds": [0, 1, 2], "rest": "[1, 2]"}
    assert semantic.get_descriptors(descriptors) == several


@pytest.mark.requirement("C110")
def test_the_key_begins_with_the_content_and_tells_apart_kinds_parameters_and_versions():
    keys = {
        cache_key(content, kind, parameters, version)
        for content in ("a", "b")
        for kind in ("anchors", "descriptors")
        for parameters in ("p", "q")
        for version in ("1", "2")
    }
    assert len(keys) == 16
    assert cache_key("c0ffee", "anchors", "p").startswith("c0ffee:anchors:")


@pytest.mark.requirement("C110")
def test_redis_forgets_after_an_hour_or_as_told(redis, server):
    redis.put("hour", b"x")
    assert 3_590_000 < redis._client.pttl("hour") <= 3_600_000
    short = RedisCache(f"redis://127.0.0.1:{server.port}/0", ttl_seconds=20)
    short.put("short", b"x")
    assert 10_000 < short._client.pttl("short") <= 20_000
    short.close()


@pytest.mark.requirement("C110")
def test_a_server_that_dies_costs_only_what_it_held(server):
    clock = ManualClock()
    shared = RedisCache(f"redis://127.0.0.1:{server.port}/0", clock=clock)
    layered = LayeredCache(MemoryCache(), shared)
    layered.put("before", b"1")
    server.stop()
    layered.put("during", b"2")
    assert shared.away
    assert shared.get("before") is None
    assert (layered.get("before"), layered.get("during")) == (b"1", b"2")
    server.start()
    assert shared.get("during") is None
    clock.advance(5)
    assert not shared.away
    shared.put("after", b"3")
    assert shared.get("after") == b"3"
    shared.close()


def test_a_later_layer_fills_those_before_it(tmp_path):
    memory, disk = MemoryCache(), DiskCache(tmp_path)
    disk.put("k", b"v")
    assert LayeredCache(memory, disk).get("k") == memory.get("k") == b"v"


def test_memory_lets_go_of_what_was_not_used_for_longest():
    cache = MemoryCache(max_bytes=10)
    for key in "abc":
        cache.put(key, b"1234")
        cache.get("a")
    assert [cache.get(key) for key in "abc"] == [b"1234", None, b"1234"]
    cache.put("large", b"12345678901")
    assert (cache.get("large"), cache.get("a")) == (None, b"1234")


def test_files_that_are_old_cannot_be_written_or_are_damaged_count_as_not_there(tmp_path):
    disk = DiskCache(tmp_path / "cache", ttl_seconds=60)
    disk.put("k", b"no Arrow")
    (file,) = (tmp_path / "cache").iterdir()
    assert SemanticCache(disk).get_descriptors("k") is SemanticCache(disk).get_arrays("k") is None
    os.utime(file, (0, 0))
    assert disk.get("k") is None
    assert not file.exists()
    (tmp_path / "file").write_text("")
    blocked = DiskCache(tmp_path / "file")
    blocked.put("k", b"v")
    assert blocked.get("k") is None


def test_what_is_no_url_is_refused_without_its_password():
    with pytest.raises(SourceError, match=r"expected redis://HOST:PORT, got 'http://\*\*\*@host'"):
        RedisCache("http://me:secret@host")
