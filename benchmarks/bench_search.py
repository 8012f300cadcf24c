"""Search over descriptors: exact against faiss, a million by the vector index, and how fast descriptors are taken in.

python benchmarks/bench_search.py --media MEDIA --faiss PYTHON --work FOLDER --results FILE.json

All vectors are features of real clips: each clip is encoded anew, cropped or retimed (`search/footage.py`), its windows are described,
and spans of them are merged as descriptors merge theirs, whole and with windows left out, as when the clip is played faster. What is
looked for is made in a way that nothing in the dataset was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hyperframes.index import Index, Store, search
from hyperframes.index.store import _stored_schema
from hyperframes.index.vectors import best, comparable
from hyperframes.semantic import Anchor, Descriptor, to_table

sys.path.insert(0, str(Path(__file__).resolve().parent / "search"))

from typing import TYPE_CHECKING

from footage import ASKED, WAYS, clips, merged_spans, timings, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hyperframes.frames import Array

SMALL, LARGE, TOP = 50_000, 1_000_000, 10


# What is searched -------------------------------------------------------------------------------------------------------


def described(media: Path, work: Path, every: int) -> tuple[list[Array], list[Array]]:
    """Return the windows of the clips made over, and of those made over as they are asked for; kept in `work`.

    All clips are encoded anew; every `every`-th is cropped too, and every second of these is asked for.
    """
    held: list[Array] = []
    asked: list[Array] = []
    for way in (*WAYS, ASKED):
        step = 1 if way is WAYS[0] else 2 * every if way is ASKED else every
        for clip in clips(media)[::step]:
            path = work / f"{way.name.replace(' ', '_')}--{str(clip.relative_to(media)).replace('/', '_')}.npy"
            if not path.exists():
                np.save(path, windows(clip, way))
            (asked if way is ASKED else held).append(np.load(path))
    return held, asked


def rows_of(held: list[Array], count: int) -> Array:
    """Return `count` comparable vectors, (count, 512): all spans, shorter ones first."""
    rows = np.empty((count, 512), np.float32)
    at = 0
    for offsets in timings():
        for found in held:
            spans = merged_spans(found, offsets)[: count - at]
            if len(spans):
                rows[at : at + len(spans)] = comparable(spans)
                at += len(spans)
        if at == count:
            return rows
    return rows[:at]


def questions(asked: list[Array], count: int) -> Array:
    """Return vectors to look for, chosen at random from the spans asked for."""
    random = np.random.default_rng(1)
    spans = [merged_spans(found, range(length)) for found in asked for length in (2, 5, 9, 14, 20)]
    every = comparable(np.concatenate([some for some in spans if len(some)]))
    return every[random.choice(len(every), min(count, len(every)), replace=False)]


# Exact ------------------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_seconds(work: Callable[[], object], rounds: int) -> float:
    work()
    return statistics.median(seconds(work) for _ in range(rounds))


def exact(rows: Array, queries: Array, python: str, work: Path, rounds: int) -> dict[str, object]:
    """Compare our scan with faiss's, in turn; ratios within each round."""
    np.save(work / "rows.npy", rows)
    np.save(work / "queries.npy", queries)
    script = Path(__file__).parent / "search/faiss_flat.py"
    told: list[dict[str, float]] = []
    for _ in range(rounds):
        ours = {
            "single": median_seconds(lambda: best(rows, queries[:1], TOP), 30),
            "many": median_seconds(lambda: best(rows, queries, TOP), 5) / len(queries),
        }
        asked = [python, str(script), str(work / "rows.npy"), str(work / "queries.npy")]
        theirs = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
        told.append({f"ours_{k}": v for k, v in ours.items()} | {f"faiss_{k}": v for k, v in theirs.items()})
    middle = {k: statistics.median(t[k] for t in told) for k in told[0] if k != "faiss_version"}
    ratios = {k: statistics.median(t[f"ours_{k}"] / t[f"faiss_{k}"] for t in told) for k in ("single", "many")}
    return {**middle, "faiss_version": told[0]["faiss_version"], "rows": len(rows), "ours_over_faiss": ratios}


# A million --------------------------------------------------------------------------------------------------------------


def kept(rows: Array, work: Path) -> Index:
    """Return a dataset of the vectors: descriptors that differ in nothing but their id and features."""
    import pyarrow as pa

    index = Index(work / "large.lance")
    if len(index) == len(rows):
        return index
    table = index._made()
    plain = to_table([_descriptor(0, np.zeros(512, np.float32))]).take(pa.array(np.zeros(16384, np.int64)))
    for first in range(0, len(rows), 16384):
        part = rows[first : first + 16384]
        flat = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), 512)
        columns = {name: plain.column(name)[: len(part)] for name in plain.column_names}
        columns["descriptor_id"] = pa.array([f"{k:032x}" for k in range(first, first + len(part))])
        columns |= {"vector": flat, "semantic_features": flat, "model_versions": pa.array(["{}"] * len(part))}
        table.add(pa.table([columns[field.name] for field in _stored_schema()], schema=_stored_schema()))
    return index


def large(rows: Array, queries: Array, work: Path) -> dict[str, object]:
    """Compare the index with an exact search, in turn, eight exact ones before every 200; a hit as alike as the last exact one counts."""
    index = kept(rows, work)
    began = time.perf_counter()
    coverage = index.optimize()
    built = time.perf_counter() - began
    _found, scores = best(rows, queries, TOP)
    right, exact, indexed = 0, [], []
    for first in range(0, len(queries), 200):
        exact.append(
            statistics.median(seconds(lambda q=q: best(rows, q[None], TOP)) for q in queries[first : first + 8])
        )
        taken = []
        for query, wanted in zip(queries[first : first + 200], scores[first : first + 200], strict=True):
            hits: list = []
            taken.append(seconds(lambda q=query, hits=hits: hits.extend(index.search_many(q[None], top=TOP)[0])))
            right += sum(hit.score >= wanted[-1] - 1e-5 for hit in hits[:TOP])
        indexed.append(statistics.median(taken))
    many = seconds(lambda: index.search_many(queries, top=TOP)) / len(queries)
    return {
        **coverage._asdict(),
        "build_seconds": built,
        "exact_seconds": statistics.median(exact),
        "index_seconds": statistics.median(indexed),
        "index_seconds_of_many": many,
        "times_as_fast": statistics.median(a / b for a, b in zip(exact, indexed, strict=True)),
        "recall_at_10": right / (TOP * len(queries)),
        "num_queries": len(queries),
        "num_probes": search.NUM_PROBES,
        "refined": search.REFINED,
        "num_bits": search.NUM_BITS,
    }


# Taking in --------------------------------------------------------------------------------------------------------------


def _descriptor(number: int, features: Array) -> Descriptor:
    return Descriptor(
        source=f"{number // 500}.mp4",
        content_hash=f"{number // 500:064x}",
        core=(50 * (number % 500), 50 * (number % 500) + 50),
        seconds=(2.0 * (number % 500), 2.0 * (number % 500) + 2),
        parameters="p",
        models={"detector": "nanodet"},
        anchors=(Anchor(0.5, 1.0), Anchor(0.7, 0.5, "cut"), Anchor(1.5, 0.25)),
        semantic_features=features,
        feature_parts=(True,) * 4,
    )


def intake(rows: Array, work: Path, rounds: int) -> dict[str, object]:
    made = [_descriptor(number, row) for number, row in enumerate(rows)]
    rates = []
    for number in range(rounds + 1):
        began = time.perf_counter()
        Store(work / f"intake{number}.lance").add(made)
        rates.append(len(made) / (time.perf_counter() - began))
    return {"descriptors": len(made), "per_second": statistics.median(rates[1:])}


def _parts(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, object]]]]:
    held, asked = described(given.media, given.work, given.every)
    queries = questions(asked, 1000)
    rows = rows_of(held, given.rows)
    made_of = {"clips": len(held), "windows": sum(map(len, held)), "clips_asked_for": len(asked)}
    few = rows[np.sort(np.random.default_rng(0).choice(len(rows), min(SMALL, len(rows)), replace=False))]
    yield "exact", lambda: exact(few, queries[:256], given.faiss, given.work, given.rounds)
    yield "intake", lambda: intake(few[:20_000], given.work, 3)
    yield "large", lambda: {**made_of, **large(rows, queries, given.work)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, required=True)
    parser.add_argument("--faiss", required=True, help="Python of an environment with search/faiss.txt")
    parser.add_argument("--work", type=Path, required=True, help="where windows and datasets are kept")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=LARGE)
    parser.add_argument(
        "--every", type=int, default=1, help="every so many-th clip is cropped too; half of these are asked for"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=("exact", "intake", "large"))
    given = parser.parse_args()
    told = json.loads(given.results.read_text()) if given.results.exists() else {}
    for name, work in _parts(given):
        if given.part is None or name in given.part:
            told[name] = work()
            given.results.write_text(json.dumps(told, indent=1) + "\n")


# As a benchmark ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_an_exact_search(benchmark, many):
    rows = comparable(np.random.default_rng(0).random((20_000, 512), np.float32))
    queries = rows[:: 100 if many else len(rows)]
    found, _ = benchmark.pedantic(best, (rows, queries, TOP), rounds=7 if benchmark.enabled else 1)
    assert found[0, 0] == 0


if __name__ == "__main__":
    main()
