"""Exact search by faiss, run in an environment of its own: ``faiss_flat.py VECTORS.npy QUERIES.npy`` prints times as JSON."""

import json
import statistics
import sys
import time

import faiss
import numpy as np


def median_seconds(work, rounds: int) -> float:
    work()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


vectors, queries = (np.load(path) for path in sys.argv[1:3])
index = faiss.IndexFlatIP(vectors.shape[1])
index.add(vectors)
told = {
    "version": faiss.__version__,
    "threads": faiss.omp_get_max_threads(),
    "single": median_seconds(lambda: index.search(queries[:1], 10), 30),
    "many": median_seconds(lambda: index.search(queries, 10), 5) / len(queries),
}
sys.stdout.write(json.dumps(told))
