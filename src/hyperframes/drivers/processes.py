"""Worker processes: a `Runner` for each, which starts it, tells it where frames lie, and says when it died.

Only the driver process leases and gives back slabs, so that a process may die at any moment and leak nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import signal
import subprocess
import time
from multiprocessing import process, spawn
from multiprocessing.connection import Pipe
from multiprocessing.reduction import send_handle
from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.child import Answer, Beginning, Failure, Order, SlabNote
from hyperframes.drivers.execute import Carried, Job, bring_tails, keep_tails, part_of
from hyperframes.errors import HyperframesError, PipelineError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from hyperframes.operators import Worker
    from hyperframes.packing import Slab
    from hyperframes.plan import Plan

__all__ = [
    "RemoteRunner",
    "WorkerDiedError",
    "WorkerTraceback",
    "check_not_importing",
    "pickled_operators",
    "raised_from",
]

LOOK_SECONDS = 0.5
"""How often a process that says nothing is looked at: what it started may hold its end of the line open."""
THREADS_OF_A_PROCESS = 2
"""One that works, one that watches over the line to the driver."""
START_ATTEMPTS = 4
"""How often a process is started that is killed before it is ready."""
END_SECONDS = 5.0
"""How long a process may take to end in order."""
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                  "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")  # fmt: skip
"""Libraries read these once, when they are loaded: so they are set before the process begins."""
_BOOTSTRAP = """
import multiprocessing.connection, sys
line = multiprocessing.connection.Connection(int(sys.argv[1]))
sys.path[:] = line.recv()  # the driver's, so that everything is found where it found it
from hyperframes.drivers.child import main
main(line)
"""


class WorkerDiedError(Exception):
    """A worker process ended without an answer; `how` says in a few words how, `killed` whether by a signal."""

    def __init__(self, how: str, *, killed: bool) -> None:
        super().__init__(how)
        self.how, self.killed = how, killed


class WorkerTraceback(Exception):
    """The traceback of an error that a worker process raised, as text: tracebacks do not leave their process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'in a worker process\n"""\n{self.text}"""'


def check_not_importing() -> None:
    """Refuse to start worker processes while this one is a worker process that imports the script it was started from.

    Raises
    ------
    PipelineError
        With the usual hint.
    """
    if getattr(process.current_process(), "_inheriting", False):
        raise PipelineError(
            "a worker process imports this script to find its operators, and the script starts a run when it is imported",
            hint="Put the run under: if __name__ == '__main__':",
        )


def pickled_operators(plan: Plan) -> tuple[bytes, ...]:
    """Return the operator of every stage, pickled for worker processes.

    Raises
    ------
    PipelineError
        If one cannot be pickled, or not be found again by another process; it names the stage.
    """
    pickled = []
    for stage in plan.stages:
        try:
            pickled.append(pickle.dumps(stage.operator))
        except Exception as error:
            raise PipelineError(
                f"stage {stage.name!r} cannot be handed to worker processes: {type(error).__name__}: {error}",
                stage=stage.name,
                hint="Define its operator at the top level of a file that can be imported, or use executor='threads'.",
            ) from error
        if _names_main(pickled[-1]) and not _main_module():
            raise PipelineError(
                f"stage {stage.name!r} is defined in an interactive session, which worker processes cannot import",
                stage=stage.name,
                hint="Define its operator in a file that can be imported, or use executor='threads'.",
            )
    return tuple(pickled)


def _names_main(pickled: bytes) -> bool:
    return b"__main__" in pickled


def _main_module() -> dict[str, Any]:
    """Return how a process can import the module that this one was started with; empty where it cannot."""
    known = _preparation()
    path = known.get("init_main_from_path")
    if "init_main_from_name" not in known and (path is None or not os.path.isfile(path)):
        return {}
    wanted = ("sys_argv", "orig_dir", "dir", "init_main_from_name", "init_main_from_path")
    return {name: known[name] for name in wanted if name in known}


def _preparation() -> dict[str, Any]:
    """Return what the standard library tells the processes it spawns about this one."""
    return spawn.get_preparation_data("hyperframes-worker")


class RemoteRunner:
    """Runs groups in a process of its own, which is started by `prepare`, and again after it died.

    Called from one thread at a time. What a task makes besides frames comes back in its answer and is put where a
    `GroupRunner` would put it.
    """

    def __init__(self, plan: Plan, worker: Worker, operators: tuple[bytes, ...]) -> None:
        self.plan, self.worker = plan, worker
        self.seconds: dict[str, float] = {}
        self.waited_ns = 0
        self.deaths: list[str] = []
        self._operators = operators
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._known: dict[Slab, int] = {}  # what the process has mapped

    @property
    def pid(self) -> int | None:
        """Of the process now running; None before `prepare`."""
        return self._process.pid if self._process is not None else None

    # Life -------------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the process and wait until its operators are prepared; one that is killed meanwhile is started again.

        Raises
        ------
        HyperframesError
            If it ends by itself before that, or is killed `START_ATTEMPTS` times; or what its operators raised.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                return self._begin()
            except WorkerDiedError as error:
                self.deaths.append(f"{error.how} while it started")
                if attempt == START_ATTEMPTS - 1 or not error.killed:
                    raise HyperframesError(
                        f"worker process {self.worker.index} ended before it was ready: {error.how}",
                        hint="What it printed stands above; a script runs under: if __name__ == '__main__':",
                    ) from error
        raise AssertionError("unreachable")

    def _begin(self) -> None:
        self._known.clear()
        bare = tuple(dataclasses.replace(stage, operator=None) for stage in self.plan.stages)  # type: ignore[arg-type]
        worker = self.worker
        beginning = Beginning(
            dataclasses.replace(self.plan, stages=bare), self._operators, worker.index, worker.resource, worker.device
        )
        line = self._start()
        try:
            line.send(_preparation()["sys_path"])
            line.send(_main_module() if any(map(_names_main, self._operators)) else {})
            line.send(beginning)
            told = self._receive()
        except (OSError, EOFError) as error:
            raise self._buried() from error
        _answer(told)

    def _start(self) -> Connection:
        line, other = Pipe()
        command = [spawn.get_executable(), *_args_from_interpreter_flags(), "-P", "-c", _BOOTSTRAP, str(other.fileno())]
        # A process begins with the signal mask of the thread that starts it: Ctrl-C is for the driver alone.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**os.environ, **dict.fromkeys(_THREAD_COUNTS, "1")},
            )
        except OSError as error:
            line.close()
            raise HyperframesError(
                f"worker process {self.worker.index} cannot be started: {error.strerror}",
                hint="Use fewer --workers, or --executor threads.",
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            other.close()
        self._line = line
        return line

    def close(self) -> None:
        """Let the process end in order, or kill it if it does not."""
        if self._line is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # it may be gone already
            self._line.send(None)
        self._line.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line, self._known = None, {}

    def _buried(self) -> WorkerDiedError:
        """See that the process is gone, which must not write to slabs that others get; return how it ended."""
        assert self._process is not None
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if self._line is not None:
            self._line.close()
            self._line = None
        if code > 0:
            return WorkerDiedError(f"exit code {code}", killed=False)
        if code == 0:  # or somebody else has waited for it, and then nobody knows
            return WorkerDiedError("ended without a word", killed=True)
        names = {signum.value: signum.name for signum in signal.Signals}
        return WorkerDiedError(f"killed by {names.get(-code, f'signal {-code}')}", killed=True)

    # Tasks ------------------------------------------------------------------------------------------------------------

    def run(self, job: Job, number: int, part: int = 0) -> None:
        """Run (a part of) group `number` on an independent hyperframe.

        Raises
        ------
        WorkerDiedError
            If the process ends before it answers.
        HyperframesError
            What the process raised, with its traceback as the cause.
        """
        answer = self._asked(job, number, part, None)
        self._take(job, answer, part_of(job.core, part, job.parts.get(number, 1)))

    def run_sequential(self, job: Job, number: int, carried: Carried) -> None:
        """Run a stage that carries state; its state travels, its tails stay here. Raises what `run` raises."""
        bring_tails(self.plan, job, carried)
        answer = self._asked(job, number, 0, Carried(carried.state, carried.done))
        assert answer.carried is not None
        self._take(job, answer, job.core)
        carried.state, carried.done = answer.carried.state, answer.carried.done
        keep_tails(self.plan, job, number, carried)

    def _asked(self, job: Job, number: int, part: int, carried: Carried | None) -> Answer:
        began = time.perf_counter_ns()
        order, new = self._order(job, number, part, carried)
        assert self._line is not None
        assert self._process is not None
        try:
            self._line.send(order)
            for slab in new:
                send_handle(self._line, slab.fd, self._process.pid)
            told = self._receive()
        except (OSError, EOFError) as error:
            death = self._buried()
            self.deaths.append(f"{death.how} on frames {job.core[0]} to {job.core[1] - 1}")
            raise death from error
        answer = _answer(told)
        self.waited_ns += max(0, time.perf_counter_ns() - began - answer.ns)
        return answer

    def _order(self, job: Job, number: int, part: int, carried: Carried | None) -> tuple[Order, list[Slab]]:
        """Return the message for a task, and the slabs that it names for the first time."""
        group = self.plan.groups[number]
        notes: list[SlabNote] = []
        new: list[Slab] = []

        def number_of(slab: Slab | None, port: int) -> int:
            assert slab is not None  # arrays are copied to slabs when workers are processes
            if slab not in self._known:
                self._known[slab] = len(self._known)
                notes.append(SlabNote(self._known[slab], port, slab.capacity))
                new.append(slab)
            return self._known[slab]

        read = {port for i in group.stages for port in self.plan.stages[i].inputs}
        inputs = {port: (number_of(h.slab, port), h.offset, h.header) for port, h in job.inputs.items()}
        buffers = {
            port: (number_of(buffer.slab, port), buffer.start, buffer.stop)
            for port in (*group.exports, *sorted(read))
            if (buffer := job.buffers.get(port)) is not None
        }
        order = Order(
            number,
            part,
            job.parts.get(number, 1),
            job.sequence,
            job.core,
            job.num_frames,
            job.end,
            job.attempt,
            inputs,
            buffers,
            {port: job.rows[port] for port in read if port in job.rows},
            carried,
            tuple(notes),
        )
        return order, new

    def _receive(self) -> Answer | Failure:
        """Return what the process answers; EOFError or OSError when it ended."""
        assert self._line is not None
        assert self._process is not None
        while not self._line.poll(LOOK_SECONDS):
            if self._process.poll() is not None and not self._line.poll(0):
                raise EOFError
        told: Answer | Failure = self._line.recv()
        return told

    def _take(self, job: Job, answer: Answer, core: tuple[int, int]) -> None:
        """Put what a task made for `core` besides frames to the rest of its hyperframe's."""
        for port, found in answer.rows.items():
            job.rows.setdefault(port, []).extend(found)
        for port, kept in answer.kept.items():
            whole, own = self.plan.ports[port].owned(job.core), self.plan.ports[port].owned(core)
            mine = slice(own[0] - whole[0], own[1] - whole[0])
            job.kept.setdefault(port, kept.copy())[mine] = kept[mine]
        for name, spent in answer.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + spent


def _answer(told: Answer | Failure) -> Answer:
    """Return an answer; raise what a failure tells."""
    if isinstance(told, Failure):
        raise raised_from(told) from WorkerTraceback(told.trace)
    return told


def raised_from(failure: Failure) -> BaseException:
    """Return the error of another process that `failure` tells of."""
    if failure.error is not None:
        try:
            error = pickle.loads(failure.error)
        except Exception:  # noqa: BLE001 - its class is not known here; its text is
            error = None
        if isinstance(error, BaseException):
            return error
    return HyperframesError(f"a worker process failed: {failure.text}")
