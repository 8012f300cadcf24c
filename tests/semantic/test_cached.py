"""What is found once is found again in the cache: anchors and descriptors of files, whatever becomes of the cache."""

import dataclasses

import pytest
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, moving, panning, still
from tests.sinks.brokers import Server, program

import hyperframes as hf
from hyperframes.errors import SourceError
from hyperframes.semantic import describing, find_anchors, open_cache, timeline
from hyperframes.semantic.cache import MemoryCache

pytestmark = pytest.mark.requirement("C110")


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return write_clip(
        tmp_path_factory.mktemp("film") / "film.mp4", footage(moving(1, 40, 2), panning(2, 30), still(3, 30))
    )


def described(film, cache, **options):
    return list(hf.describe(film, detector=None, text=None, cache=cache, **options))


class Counted(MemoryCache):
    """Remembers its keys."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def put(self, key, value):
        self.keys.append(key)
        super().put(key, value)


def test_descriptors_are_not_made_twice_but_for_other_settings_and_content(film, tmp_path, monkeypatch):
    cache, copy = Counted(), tmp_path / "copy.mp4"
    copy.write_bytes(film.read_bytes())
    first = described(film, cache)
    assert [key.split(":")[:2] for key in cache.keys] == [[first[0].content_hash, "descriptors"]]
    described(film, cache, hop=4)
    assert len(set(cache.keys)) == 2
    monkeypatch.setattr(describing, "start", None)  # a run would fail
    assert described(film, cache) == first
    assert described(copy, cache) == [dataclasses.replace(d, source=str(copy)) for d in first]


def test_a_reader_that_stops_leaves_no_half_of_a_film_in_the_cache(film):
    cache = Counted()
    found = hf.describe(film, detector=None, text=None, cache=cache)
    next(found)
    found.close()
    assert not cache.keys


def test_timelines_are_not_made_twice(film, monkeypatch):
    cache = Counted()
    first = find_anchors(film, cache=cache)
    assert cache.keys[0].split(":")[1] == "anchors"
    assert find_anchors(film, cache=cache, range=(0, 20)).segments[-1].stop == 20
    monkeypatch.setattr(timeline, "run", None)
    again = find_anchors(film, cache=cache)
    assert (again.anchors, again.segments, again.statistics) == (first.anchors, first.segments, first.statistics)
    assert (again.weights == first.weights).all()
    assert again.weights.dtype == first.weights.dtype


def test_a_redis_that_dies_while_films_are_described_costs_only_speed(film, tmp_path):
    folder = tmp_path / "redis"
    folder.mkdir()
    arguments = [program("redis-server"), "--save", "", "--bind", "127.0.0.1", "--dir", str(folder)]
    server = Server(folder, lambda _, port: [*arguments, "--port", str(port)])
    try:
        where = f"redis://127.0.0.1:{server.port}/0"
        first = described(film, open_cache(where))
        assert described(film, open_cache(where)) == first
        running = hf.describe(film, detector=None, text=None, hop=4, cache=open_cache(where))
        begun = [next(running)]
        server.stop()
        begun += running
        assert [d.core for d in begun] == [d.core for d in first]
    finally:
        server.stop()


def test_a_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "kept").write_text("notes")
    with pytest.raises(SourceError, match=r"a cache is a folder: .*kept is a file") as told:
        open_cache(str(tmp_path / "kept"))
    assert told.value.hint == "Name a folder: it is made where there is none."
