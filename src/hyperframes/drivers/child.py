"""The other side of `drivers.processes`: what a worker process does, and the messages both sides know.

A message says where frames lie (slab, slot, entries), never what they are: both processes map the same slabs.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import pickle
import select
import signal
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing import process, spawn
from multiprocessing.reduction import ForkingPickler, recv_handle
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.execute import Buffer, Carried, GroupRunner, Job
from hyperframes.drivers.threads import single_threaded_libraries
from hyperframes.errors import HyperframesError, OperatorError, PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import Worker
from hyperframes.packing import Header, Hyperframe
from hyperframes.packing.slab import map_planes, plane_offsets
from hyperframes.plan import Plan, Range

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Answer", "Beginning", "Failure", "Order", "SlabNote", "failure_of", "main"]

GRACE_SECONDS = 2.0
"""How long a worker process goes on after its driver is gone, before it ends itself in the middle of a task."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first message: what to prepare."""

    plan: Plan
    """Its stages without their operators."""
    operators: tuple[bytes, ...]
    """Pickled, one per stage, so that one which cannot be made here can be named."""
    index: int
    resource: str
    device: str | None


@dataclass(frozen=True, slots=True)
class SlabNote:
    """A slab named for the first time; its file descriptor follows the message."""

    number: int
    port: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Order:
    """One task: where its frames lie and what is to be done with them."""

    group: int
    part: int
    parts: int
    sequence: int
    core: Range
    num_frames: int | None
    end: bool
    attempt: int
    inputs: dict[int, tuple[int, int, Header]]
    """By source port: slab, slot of the first frame, header."""
    buffers: dict[int, tuple[int, int, int]]
    """By port: slab, first entry, one past the last entry."""
    rows: dict[int, list[tuple[int, list[Any]]]]
    """Of the ports of records that the group reads."""
    carried: Carried | None
    """What a sequential stage goes on from, without its tails; None for independent groups."""
    slabs: tuple[SlabNote, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task made besides frames, which lie in the slabs."""

    rows: dict[int, list[tuple[int, list[Any]]]] = field(default_factory=dict)
    kept: dict[int, Array] = field(default_factory=dict)
    carried: Carried | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    """Spent in each stage's operator."""
    ns: int = 0
    """From the order read to the answer made."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a task or the preparation raised."""

    error: bytes | None
    """Pickled; None where it cannot be."""
    text: str
    """Its class and sentence."""
    trace: str
    """The traceback as Python prints it, causes included."""


def main(connection: Connection) -> None:
    """Prepare, then carry out orders until the driver says that it is over or is gone."""
    os.set_inheritable(connection.fileno(), False)  # what operators start must not keep the line to the driver open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver hears Ctrl-C and ends the run in order
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_driver, args=(connection.fileno(),), daemon=True).start()
    try:
        _import_main(connection.recv())
        runner = _prepared(connection.recv())
    except EOFError:
        return
    except BaseException as error:  # noqa: BLE001 - told to the driver, which raises it
        connection.send(failure_of(error))
        return
    connection.send(Answer())
    with single_threaded_libraries():
        _serve(connection, runner)


def _end_with_driver(fileno: int) -> None:
    """Wait until the other end of the line is closed, whatever the main thread does; then see that this process ends."""
    line = select.poll()
    line.register(fileno, 0)  # hang-ups are always told
    line.poll()
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _import_main(how: dict[str, Any]) -> None:
    """Import the driver's main module where operators are defined in it, as the standard library's workers do."""
    if not how:
        return
    current: Any = process.current_process()
    current._inheriting = True  # a run that begins meanwhile is told so; see `processes.check_not_importing`
    try:
        spawn.prepare(how)
    finally:
        del current._inheriting


def _prepared(beginning: Beginning) -> GroupRunner:
    stages = []
    for stage, pickled in zip(beginning.plan.stages, beginning.operators, strict=True):
        try:
            operator = pickle.loads(pickled)
        except Exception as error:
            raise PipelineError(
                f"stage {stage.name!r} cannot be made in a worker process: {type(error).__name__}: {error}",
                stage=stage.name,
                hint="Define its operator at the top level of a file that can be imported, or use executor='threads'.",
            ) from error
        stages.append(dataclasses.replace(stage, operator=operator))
    plan = dataclasses.replace(beginning.plan, stages=tuple(stages))
    runner = GroupRunner(plan, Worker(beginning.index, beginning.resource, beginning.device))
    runner.prepare()
    return runner


def _serve(connection: Connection, runner: GroupRunner) -> None:
    slabs = _Slabs(runner.plan)
    while True:
        try:
            order = connection.recv()
        except (EOFError, ConnectionError):
            return
        if order is None:
            return
        for note in order.slabs:
            slabs.add(note, recv_handle(connection))
        connection.send_bytes(_carried_out(order, runner, slabs))


def _carried_out(order: Order, runner: GroupRunner, slabs: _Slabs) -> Any:
    """Return the answer to `order`, pickled."""
    began, before = time.perf_counter_ns(), dict(runner.seconds)
    try:
        job = slabs.job(order)
        if order.carried is None:
            runner.run(job, order.group, order.part)
        else:
            runner.advance(job, order.group, order.carried)
        made = {p for i in runner.plan.groups[order.group].stages for p in runner.plan.stages[i].outputs}
        spent = {name: total - before.get(name, 0.0) for name, total in runner.seconds.items()}
        rows = {port: found for port, found in job.rows.items() if port in made}
        answer = Answer(rows, job.kept, order.carried, spent, time.perf_counter_ns() - began)
        return _pickled(answer, order, runner.plan)
    except BaseException as error:  # noqa: BLE001 - told to the driver, which raises it
        return ForkingPickler.dumps(failure_of(error))


def _pickled(answer: Answer, order: Order, plan: Plan) -> Any:
    try:
        return ForkingPickler.dumps(answer)
    except Exception as error:
        names = " + ".join(plan.stages[i].name for i in plan.groups[order.group].stages)
        raise OperatorError(
            f"stage {names!r} returned what cannot leave its worker process: {type(error).__name__}: {error}",
            stage=names,
            frames=order.core,
            hint="State and records hold arrays, numbers and text, nothing else.",
        ) from error


def failure_of(error: BaseException) -> Failure:
    """Return what tells of `error` in another process."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # many errors go in and do not come out
    except Exception:  # noqa: BLE001 - whatever its own pickling raises; its text is told all the same
        pickled = None
    what = str(error) if isinstance(error, HyperframesError) else f"{type(error).__name__}: {error}"
    return Failure(pickled, what, trace)


class _Slabs:
    """The driver's slabs, mapped here once each."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._planes: dict[int, tuple[Array, ...]] = {}

    def add(self, note: SlabNote, fd: int) -> None:
        """Map a slab; the maps go with the process."""
        try:
            spec = self._spec(note.port)
            offsets, size = plane_offsets(spec, note.capacity)
            self._planes[note.number] = map_planes(mmap.mmap(fd, size), spec, note.capacity, offsets)
        finally:
            os.close(fd)

    def job(self, order: Order) -> Job:
        """Return the hyperframe of `order`, its frames as views of the slabs."""
        inputs = {port: self._hyperframe(port, *where) for port, where in order.inputs.items()}
        buffers = {
            port: Buffer(self._planes[number], start, stop) for port, (number, start, stop) in order.buffers.items()
        }
        return Job(
            order.sequence,
            order.core,
            order.num_frames,
            order.end,
            inputs,
            buffers,
            order.rows,
            parts={order.group: order.parts},
            attempt=order.attempt,
        )

    def _hyperframe(self, port: int, number: int, slot: int, header: Header) -> Hyperframe:
        (start, stop), core = header.read, header.core
        planes = tuple(plane[slot : slot + stop - start] for plane in self._planes[number])
        for plane in planes:
            plane.flags.writeable = False
        mask = np.ones(stop - start, bool)
        return Hyperframe(header, planes, slice(core[0] - start, core[1] - start), mask, self._spec(port))

    def _spec(self, port: int) -> FrameSpec:
        spec = self._plan.ports[port].spec
        assert isinstance(spec, FrameSpec)
        return spec
