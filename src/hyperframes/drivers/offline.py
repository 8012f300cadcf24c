"""The short forms: `run`, `start` and `stream` over files and arrays."""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.cluster import ClusterRun
from hyperframes.drivers.engine import Engine
from hyperframes.drivers.interrupts import interrupts_held
from hyperframes.drivers.machine import available_memory
from hyperframes.drivers.report import Recorder
from hyperframes.errors import PipelineError
from hyperframes.frames import Clip, Records
from hyperframes.pipeline import Pipeline
from hyperframes.sinks import CallbackSink, MemorySink, Sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.drivers.handle import Run
    from hyperframes.drivers.result import RunResult
    from hyperframes.instruments import Instrument

__all__ = ["run", "start", "stream"]


def run(
    source: Any, operators: Any = (), to: Any = None, *, instruments: tuple[Instrument, ...] = (), **options: Any
) -> RunResult:
    """Run operators over a source and wait for the end.

    Parameters
    ----------
    source : path, URL, array (T, ...), Source, Pipeline, or mapping of names to sources
        Where frames come from; a Pipeline brings everything else with it.
    operators : operator or sequence of operators, optional
        ``"gaussian:sigma=2"``, decorated functions, Operator objects, Stage objects.
    to : path, URL, Sink, or mapping of output names to those, optional
        Left out, the result stays in memory: ``.array`` (frames) or ``.value``.
    instruments : tuple of Instrument, optional
        Observers of the run.
    **options
        Fields of `Options`: size, workers, boundary, pixel_format, range, max_memory, ...

    Returns
    -------
    RunResult

    Raises
    ------
    HyperframesError
        What was wrong, with a hint. A result that outgrows `max_memory` is an error that names `hf.stream`.

    Examples
    --------
    >>> import numpy as np
    >>> import hyperframes as hf
    >>> hf.run(np.arange(6, dtype=np.uint8).reshape(6, 1), "temporal_mean:radius=1").array.ravel().tolist()
    [0, 1, 2, 3, 4, 5]
    """
    recorder = Recorder()
    pipeline = source if isinstance(source, Pipeline) else Pipeline.of(source, operators, to, **options)
    result = _run_once(pipeline, (*instruments, recorder), recorder)
    number = 2
    while pipeline.options.on_size_change == "split" and (rest := _rest_of(pipeline, result, number)) is not None:
        result = result.followed_by(_run_once(rest, instruments, recorder))
        number += 1
    return result


def _run_once(pipeline: Pipeline, instruments: tuple[Instrument, ...], recorder: Recorder) -> RunResult:
    engine, handle = _driver(_with_sink(pipeline), instruments), None
    try:
        with interrupts_held():  # from the opening of sinks on there is something to clean up
            handle = engine.start()
        result = handle.wait()
    except KeyboardInterrupt:
        if handle is not None:
            handle.cancel("interrupted")
            handle.join()
        raise
    result.recorder = recorder
    return result


def _rest_of(pipeline: Pipeline, done: RunResult, number: int) -> Pipeline | None:
    """Return the pipeline for what follows a change of frame size, writing to outputs of its own; None at the end."""
    (name, source), *_ = done.sources.items()
    following = getattr(source, "next_part", lambda: None)()
    if following is None:
        return None
    sinks = {key: _numbered(what, number) for key, what in pipeline.sinks.items()}
    return pipeline.replace(sources={name: following}, sinks=sinks)


def _numbered(what: Any, number: int) -> Any:
    """Return the `number`-th output: ``out.mp4`` is followed by ``out-2.mp4``, with the same settings."""
    name = what.name if isinstance(what, Sink) else what
    if isinstance(name, str | os.PathLike):
        root, suffix = os.path.splitext(os.fspath(name))
        path = f"{root}-{number}{suffix}"
        following = what.beside(path) if isinstance(what, Sink) else path
        if following is not None:
            return following
    raise PipelineError(
        f"the frame size changes and the rest needs an output of its own: expected a path, got {what!r}",
        hint="Give `to` as a path, or use on_size_change='scale'.",
    )


def start(
    source: Any, operators: Any = (), to: Any = None, *, instruments: tuple[Instrument, ...] = (), **options: Any
) -> Run:
    """Start a run and return its handle at once; the arguments are those of `run`."""
    pipeline = source if isinstance(source, Pipeline) else Pipeline.of(source, operators, to, **options)
    return _driver(_with_sink(pipeline), instruments).start()


def _driver(pipeline: Pipeline, instruments: tuple[Instrument, ...]) -> Engine | ClusterRun:
    return (ClusterRun if pipeline.options.executor == "ray" else Engine)(pipeline, instruments)


def _with_sink(pipeline: Pipeline) -> Pipeline:
    """Give a pipeline without sinks one that keeps the result in memory, within bounds."""
    if pipeline.sinks:
        return pipeline
    last = pipeline.stages[-1].name if pipeline.stages else next(iter(pipeline.sources))
    limit = pipeline.options.max_memory or available_memory() // 2
    return pipeline.replace(sinks={last: MemorySink(max_bytes=limit)})


def stream(source: Any, operators: Any = (), **options: Any) -> Iterator[Clip | Records]:
    """Yield results as they come, one hyperframe's at a time, in order and in bounded memory.

    Stop iterating (or close the generator) and the run is cancelled. The arguments are those of `run`.

    Yields
    ------
    Clip or Records
        With arrays of its own.

    Examples
    --------
    >>> import numpy as np
    >>> import hyperframes as hf
    >>> [len(clip) for clip in hf.stream(np.zeros((5, 2)), "temporal_mean:radius=1", size=2)]
    [2, 2, 1]
    """
    handed: queue.Queue[Clip | Records | None] = queue.Queue(maxsize=1)
    abandoned = threading.Event()

    def hand_over(result: Clip | Records) -> None:
        own = _owned(result)
        while not abandoned.is_set():
            try:
                return handed.put(own, timeout=0.1)
            except queue.Full:
                continue
        return None

    pipeline = Pipeline.of(source, operators, **options)
    last = pipeline.stages[-1].name if pipeline.stages else next(iter(pipeline.sources))
    handle = start(pipeline.replace(sinks={last: CallbackSink(hand_over)}))
    threading.Thread(target=_end, args=(handle, handed, abandoned), daemon=True).start()
    try:
        while (result := handed.get()) is not None:
            yield result
        handle.wait()
    finally:
        abandoned.set()
        if not handle.stats()["finished"]:
            handle.cancel("the reader stopped")
            handle.join()


def _end(handle: Run, handed: queue.Queue[Any], abandoned: threading.Event) -> None:
    """Tell the reader that the run has ended."""
    handle.join()
    while not abandoned.is_set():
        try:
            handed.put(None, timeout=0.1)
        except queue.Full:
            continue
        else:
            return


def _owned(result: Clip | Records) -> Clip | Records:
    """Return `result` with arrays of its own: the sink only lends them."""
    if isinstance(result, Records):
        return result
    return Clip(
        tuple(np.array(plane) for plane in result.planes),
        np.array(result.pts),
        np.array(result.index),
        result.spec,
        result.durations,
        result.mask,
        result.hyperframe,
    )
