"""pandas: rolling means over rows."""

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    if not workload.startswith("sensor_"):
        return {}
    import pandas
    from tasks import pieces, sensor_rows

    rows, window = pandas.Series(sensor_rows()[:, 0]), int(workload.removeprefix("sensor_"))

    def means(**options):
        return rows.rolling(window, center=True).mean(**options).to_numpy()

    def by_numba():
        return means(engine="numba", engine_kwargs={"nogil": True, "parallel": True})

    return {
        "pandas rolling": Case(lambda: len(means()), lambda: pieces(means())),
        "pandas rolling, numba": Case(lambda: len(by_numba()), lambda: pieces(by_numba())),
    }
