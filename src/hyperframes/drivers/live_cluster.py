"""Live across machines: a `LiveRuntime` in a Ray actor on each node, over its share of the sources.

Frames stay where they are captured. A node tells some times a second what it has counted, and gives its results, without
pixels; its journal and its recording stand on its own disk. Who has which stream is decided in `shares`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hyperframes.drivers.connection import Connection, connected
from hyperframes.drivers.live import LiveResult, LiveRuntime
from hyperframes.drivers.live_results import Failures
from hyperframes.drivers.machine import machine_facts
from hyperframes.drivers.shares import Move, Shares
from hyperframes.errors import HyperframesError, PipelineError, without_credentials
from hyperframes.frames import Spec
from hyperframes.instruments import Observation, Observers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from hyperframes.instruments import Instrument
    from hyperframes.packing import Packing

__all__ = ["LiveCluster"]

LOOK_SECONDS = 0.1
"""How long a node that has nothing to tell may wait before it says so."""
SILENT_SECONDS = 10.0
"""After which a node that does not answer is given up."""
MOST_KEPT = 20_000
"""Results that wait on a node to be fetched; then its results are held up, and what its queue cannot hold is dropped."""
MOST_VALUES = 4096
"""Numbers of one result that travel; larger arrays, such as pictures, are told by shape."""
MAX_STARTS = 4
"""How often nodes are begun again where none was left."""
_TOLD = frozenset({"stream", "warning", "degraded", "recovered"})


@dataclass(slots=True)
class _Order:
    """What a node is to do."""

    name: str
    run: str
    path: tuple[str, ...]
    """Of the sender's ``sys.path``."""
    settings: dict[str, Any]
    """Of its `LiveRuntime`."""
    on_result: Callable[[LiveResult], Any] | None
    collects: bool
    journal: str
    """Folder, on the node; empty: none."""
    record: str
    keep: float | None


@dataclass(slots=True)
class _Look:
    """What a node tells."""

    stats: dict[str, Any]
    results: list[tuple[Any, ...]]
    told: list[Observation]
    outputs: list[dict[str, tuple[str, Spec]]]
    over: bool = False
    """Whether its run was stopped, and this is its last word."""
    warnings: list[str] = field(default_factory=list)


class _NodeRun:
    """A live run on one node; what Ray makes an actor of. Every method may be called while another one waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._results: deque[tuple[Any, ...]] = deque()
        self._told: list[Observation] = []
        self._free = self._over = False
        self._live: LiveRuntime | None = None
        self._warnings: list[str] = []
        self._failures = Failures()
        self._closing = contextlib.ExitStack()

    def begin(self, order: _Order) -> HyperframesError | None:
        """Start; return what is wrong."""
        sys.path += [place for place in order.path if place not in sys.path]
        try:
            self._begin(order)
        except HyperframesError as error:
            self._closing.close()
            return error
        return None

    def _begin(self, order: _Order) -> None:
        instruments: list[Any] = [self]
        first, recorder = 0, None
        if order.journal:
            from hyperframes.drivers.live_journal import LiveJournal, Retention

            Path(order.journal).mkdir(parents=True, exist_ok=True)
            path = Path(order.journal) / f"{order.name}.journal"
            journal = self._closing.enter_context(LiveJournal(path, retention=Retention.of(order.keep)))
            first = journal.next_sequence
            instruments.append(journal)
        if order.record:
            from hyperframes.media.recording import Keep, Recorder

            recorder = Recorder(Path(order.record) / order.name, Keep.of(order.keep))
            self._closing.callback(recorder.close)
        callbacks = [order.on_result] if order.on_result is not None else []
        callbacks += [self._keep] if order.collects else []
        self._live = LiveRuntime(
            on_result=callbacks,
            instruments=tuple(instruments),
            recorder=recorder,
            run_id=f"{order.run}-{order.name}",
            first_sequence=first,
            **order.settings,
        )
        self._live.start()

    @property
    def live(self) -> LiveRuntime:
        """The run."""
        if self._live is None:
            raise PipelineError("this node has not begun")
        return self._live

    def add(self, stream: str, what: Any, options: dict[str, Any], epoch: int) -> None:
        """Capture one more stream."""
        try:
            self.live.add_source(stream, what, epoch=epoch, **options)
        except (HyperframesError, OSError) as error:
            self.observe({"kind": "warning", "message": f"{stream} is not captured: {error}"})

    def remove(self, stream: str) -> None:
        """Let a stream go."""
        self.live.remove_source(stream)

    def event(self, stream: str | None) -> None:
        """Tell that something happened."""
        self.live.event(stream)

    def observe(self, observation: Observation) -> None:
        """Keep what people should know."""
        if failed := self._failures.note(observation):
            observation = {"kind": "warning", "message": failed}
        if observation["kind"] in _TOLD:
            with self._changed:
                self._told.append(observation)
                self._changed.notify_all()

    def _keep(self, result: LiveResult) -> None:
        """Keep a result until it is fetched; wait for room, so that what is too much is dropped and counted where it should."""
        if result.provisional:
            return
        kept = (
            result.stream, result.frame_id, result.pts_ns, result.clock, _small(result.value), result.hyperframe,
            result.sequence, result.epoch,
        )  # fmt: skip
        with self._changed:
            self._changed.wait_for(lambda: len(self._results) < MOST_KEPT or self._free)
            self._results.append(kept)
            self._changed.notify_all()

    def look(self) -> _Look:
        """Return what is new; after a moment where nothing is."""
        with self._changed:
            self._changed.wait_for(lambda: self._results or self._told or self._over, LOOK_SECONDS)
            results, told = list(self._results), self._told
            self._results.clear()
            self._told = []
            over = self._over
            self._changed.notify_all()
        # Counted after the results were taken: none of them was delivered later than the counts say.
        return _Look(self.live.stats(), results, told, self.live.outputs(), over, self._warnings if over else [])

    def stop(self, *, drain: bool) -> None:
        """Stop the run; its last word comes with the next look."""
        if not drain:
            self._free = True
        with contextlib.suppress(HyperframesError):
            self.live.stop(drain=drain)
        self._warnings = list(self.live.warnings)
        self._closing.close()
        with self._changed:
            self._over = True
            self._changed.notify_all()


def _small(value: Any) -> Any:
    """Return a value without pixels: arrays of many numbers as their shape."""
    if isinstance(value, dict):
        return {name: _small(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_small(part) for part in value)
    if hasattr(value, "tolist") and getattr(value, "size", 0) > MOST_VALUES:
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    return value


@dataclass(slots=True)
class _Hand:
    """A node's actor, from here."""

    name: str
    actor: Any
    node: str
    """The id that Ray knows the machine by."""
    looking: Any = None
    """The answer that is waited for."""
    since: float = 0.0


class LiveCluster:
    """Runs live streams on the nodes of a Ray cluster; used like a `LiveRuntime`.

    Every node has one coordinator for each of its devices (GPUs), or one. A node that is lost takes with it what it had in
    flight, counted as dropped by ``node_lost``; its streams go on elsewhere, in a new epoch.

    Parameters
    ----------
    sources : mapping of name to source, optional
        As for `LiveRuntime`; opened where they are captured, so paths must mean the same there.
    cluster : str
        Address of the Ray cluster; empty or ``local``: one is started on this machine for the time.
    packing, operator, settings
        As for `LiveRuntime`, on each node. Spatial hyperframes hold one instant of all streams: then one node has them all.
    on_result : function or sequence of functions, optional
        Called here with every result; arrays of more than 4,096 numbers, such as pictures, come as their shape and dtype.
    on_result_there : function, optional
        Called on the node that made the result, pixels and all; it is sent there.
    journal : path, optional
        Folder on each node in which it keeps ``NODE.journal``.
    record : path, optional
        Folder on each node for what comes in, in a folder of the node's name.
    keep : float, optional
        Seconds that journals and recordings are kept; default: a million hyperframes, all frames.
    instruments : tuple of Instrument
        Told what becomes of streams and nodes.

    Notes
    -----
    A node that is merely cut off may go on capturing until Ray ends it; what it makes then reaches its own journal only.

    Examples
    --------
    ``LiveCluster({"door": "rtsp://10.0.0.7/main"}, cluster="10.0.0.1:6379", operator="measure", on_result=print)``
    """

    def __init__(
        self,
        sources: Mapping[str, Any] | None = None,
        *,
        cluster: str = "",
        packing: Packing | str | None = None,
        operator: Any = None,
        on_result: Callable[[LiveResult], Any] | None = None,
        on_result_there: Callable[[LiveResult], Any] | None = None,
        journal: str | Path = "",
        record: str | Path = "",
        keep: float | None = None,
        instruments: tuple[Instrument, ...] = (),
        **settings: Any,
    ) -> None:
        checked = LiveRuntime(packing=packing, operator=operator, **settings)  # says here what is wrong with any of it
        self.id = uuid.uuid4().hex[:8]
        self.warnings: list[str] = []
        self._sources = dict(sources or {})
        self._address = "" if cluster == "local" else cluster
        self._settings = {"packing": packing, "operator": operator, **settings}
        self._on_result, self._there = on_result, on_result_there
        self._journal = str(Path(journal).absolute()) if journal else ""
        self._record = str(Path(record).absolute()) if record else ""
        self._keep_seconds = keep
        self._observers = Observers(instruments)
        self._shares = Shares(together=checked.packing.kind != "temporal", collects=on_result is not None)
        self._what: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._hands: dict[str, _Hand] = {}
        self._ids: dict[str, str] = {}
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._held = contextlib.ExitStack()
        self._outputs: list[dict[str, tuple[str, Spec]]] = []
        self._starts = 0
        self._over = threading.Event()
        self._looking: threading.Thread | None = None
        self._stopping = False
        self._fault: Exception | None = None
        self._callback_errors = 0
        self._began = time.monotonic()
        self._last: dict[str, Any] | None = None

    # Life -------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Connect, begin on every node, and share the sources out.

        Raises
        ------
        HyperframesError
            If the cluster does not answer, or a node cannot begin.
        """
        self._began = time.monotonic()
        self._connection = self._held.enter_context(connected(self._address, machine_facts().cores))
        try:
            self._begin_nodes()
            for name, what in self._sources.items():
                self.add_source(name, what)
        except BaseException:
            self._let_go()
            raise
        self._looking = threading.Thread(target=self._look_on, name="hyperframes-cluster-live", daemon=True)
        self._looking.start()
        return self

    def _begin_nodes(self) -> None:
        """Begin on every node that is alive and has no run of ours yet."""
        assert self._connection is not None  # started
        self._starts += 1
        places = [place for place in _places(self._connection.ray) if place[0] not in self._hands]
        if not places:
            raise HyperframesError("the Ray cluster has no node that is alive", hint="See 'ray status'.")
        hands = {name: self._begin(name, node, gpus) for name, node, gpus, _ in places}
        unwell: HyperframesError | None = None
        for name, _, _, cpus in places:
            hand, begun = hands[name]
            try:
                error = self._answer(name, begun, 120.0)
            except HyperframesError as lost:  # it went away while it was asked
                unwell = lost
                self._warn(str(lost))
                continue
            if error is not None:
                raise error
            self._hands[name], self._ids[name] = hand, hand.node
            self._shares.join(name, cpus)
        if unwell is not None and not self._shares.living:
            raise unwell

    def _begin(self, name: str, node: str, gpus: int) -> tuple[_Hand, Any]:
        assert self._connection is not None  # started
        ray = self._connection.ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = (
            ray.remote(_NodeRun)
            .options(
                num_cpus=0,  # cameras do not wait until other tasks have ended
                num_gpus=gpus,
                max_restarts=0,
                max_concurrency=8,
                name=f"hyperframes live {self.id} {name}",
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote()
        )
        order = _Order(
            name, self.id, tuple(sys.path), self._settings, self._there, self._on_result is not None, self._journal,
            self._record, self._keep_seconds,
        )  # fmt: skip
        try:
            return _Hand(name, actor, node), actor.begin.remote(order)
        except TypeError as error:
            raise PipelineError(
                f"what a node is to do cannot be sent to it: {error}",
                hint="Keep files, locks and connections out of operators and of on_result_there.",
            ) from error

    def _answer(self, name: str, asked: Any, seconds: float) -> HyperframesError | None:
        assert self._connection is not None  # started
        ray = self._connection.ray
        try:
            found: HyperframesError | None = ray.get(asked, timeout=seconds)
        except ray.exceptions.RayError as error:
            raise HyperframesError(
                f"node {name} cannot begin: {type(error).__name__}: {without_credentials(str(error)).splitlines()[0]}",
                hint="Is hyperframes installed there, in the same version?",
            ) from error
        return found

    def stop(self, *, drain: bool = True, timeout: float | None = 30.0) -> dict[str, Any]:
        """Stop every node, and return the last stats; see `LiveRuntime.stop`."""
        if self._looking is None:
            return self.stats()
        with self._lock:
            if not self._stopping:
                self._stopping = True
                for hand in self._hands.values():
                    hand.actor.stop.remote(drain=drain)
        if not self._over.wait(timeout):
            with self._lock:
                for name in list(self._hands):
                    self._lose(name, f"it did not stop within {timeout:g} s")
            self._over.wait(5.0)
        self._looking.join(5.0)
        self._last = self.stats()
        self._let_go()
        if self._fault is not None:
            raise self._fault
        return self._last

    def _let_go(self) -> None:
        if self._connection is not None:
            for hand in self._hands.values():
                with contextlib.suppress(Exception):
                    self._connection.ray.kill(hand.actor)
        self._hands.clear()
        self._connection = None
        self._held.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every source has ended by itself; return whether they have."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._shares.over:
            if self._over.wait(0.05 if end is None else min(0.05, max(0.0, end - time.monotonic()))):
                return True
            if end is not None and time.monotonic() >= end:
                return False
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(drain=kind is None)

    # Streams ----------------------------------------------------------------------------------------------------------

    def add_source(self, name: str, what: Any, **options: Any) -> None:
        """Begin to capture one more stream, on the node with most room; see `LiveRuntime.add_source`."""
        with self._lock:
            if name in self._what:
                raise PipelineError(f"a source named {name!r} is there already", got=name, hint="Remove it first.")
            self._what[name] = (what, options)
            self._carry_out(self._shares.place(name))

    def remove_source(self, name: str) -> None:
        """Let a stream go; what was captured of it is still worked on."""
        with self._lock:
            node = self._shares.node_of(name)
            if name not in self._what or node not in self._hands:
                known = ", ".join(sorted(self._what)) or "none"
                raise PipelineError(f"no source named {name!r}; known: {known}", got=name)
            del self._what[name]
            self._hands[node].actor.remove.remote(name)

    def event(self, stream: str | None = None) -> None:
        """Tell all nodes that something happened; see `LiveRuntime.event`."""
        with self._lock:
            for name, hand in self._hands.items():
                if stream is None or self._shares.node_of(stream) == name:
                    hand.actor.event.remote(stream)

    def _carry_out(self, move: Move) -> None:
        what, options = self._what.get(move.stream, (None, {}))
        if what is not None and move.node in self._hands:
            self._hands[move.node].actor.add.remote(move.stream, what, options, move.epoch)

    # Watching -----------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return the counts of all nodes as one run's, as `LiveRuntime.stats` does, and what became of which node."""
        if self._last is not None:
            return self._last
        with self._lock:
            found = self._shares.stats()
            for name, node in found["nodes"].items():
                node["id"] = self._ids[name]
        found["callback_errors"] += self._callback_errors
        return {"run": self.id, **found, "seconds": time.monotonic() - self._began}

    def outputs(self) -> list[dict[str, tuple[str, Spec]]]:
        """Return what results are made of; see `LiveRuntime.outputs`."""
        return self._outputs

    def _look_on(self) -> None:
        """Ask nodes again and again what they have, until all have said their last word."""
        try:
            while self._hands:
                self._look()
        except Exception as error:  # noqa: BLE001 - raised again by `stop`
            self._fault = error
        finally:
            self._over.set()

    def _look(self) -> None:
        assert self._connection is not None  # started
        ray, now = self._connection.ray, time.monotonic()
        with self._lock:
            hands = list(self._hands.values())
            for hand in hands:
                if hand.looking is None:
                    hand.looking, hand.since = hand.actor.look.remote(), now
        ready, _ = ray.wait([hand.looking for hand in hands], num_returns=1, timeout=0.2)
        for hand in hands:
            if hand.looking in ready:
                self._hear(hand)
            elif now - hand.since > SILENT_SECONDS:
                self._lose(hand.name, f"it has not answered for {SILENT_SECONDS:g} s")

    def _hear(self, hand: _Hand) -> None:
        """Take in what a node tells."""
        assert self._connection is not None  # started
        ray = self._connection.ray
        try:
            look: _Look = ray.get(hand.looking)
        except ray.exceptions.RayTaskError as error:
            raise HyperframesError(f"node {hand.name} failed: {without_credentials(str(error.cause))}") from error
        except ray.exceptions.RayError as error:
            self._lose(hand.name, _why(error))
            return
        hand.looking = None
        with self._lock:
            if hand.name not in self._hands:
                return  # it was given up meanwhile
            self._shares.tell(hand.name, look.stats, Counter(r[0] for r in look.results).elements())
            self._outputs = look.outputs or self._outputs
            if look.over:
                self.warnings += look.warnings
                del self._hands[hand.name]
        for observation in look.told:
            self._observers.observe({**observation, "node": hand.name})
        for result in look.results:
            self._call(self._on_result, LiveResult(*result))
        if look.results:
            self._call(getattr(self._on_result, "settle", None))

    def _call(self, callback: Callable[..., Any] | None, *given: LiveResult) -> None:
        if callback is None:
            return
        try:
            callback(*given)
        except Exception as error:  # noqa: BLE001 - a callback's fault is its own
            self._callback_errors += 1
            if self._callback_errors & (self._callback_errors - 1) == 0:  # 1, 2, 4, 8, ...: no storm of warnings
                self._warn(f"on_result raised {type(error).__name__}: {error}")

    def _lose(self, name: str, why: str) -> None:
        """Give a node up, and let others go on with its streams."""
        with self._lock:
            hand = self._hands.pop(name, None)
            if hand is None or self._connection is None:
                return
            with contextlib.suppress(Exception):
                self._connection.ray.kill(hand.actor)  # it may be cut off only: two must not capture one stream
            held = [stream for stream in self._what if self._shares.node_of(stream) == name]
            moves = self._shares.lose(name, why)
            self._warn(f"node {name} was lost: {why}")
            for stream in held:
                self._tell_stream(stream, "lost", f"node {name} was lost: {why}", name)
            if self._stopping:
                return
            if self._shares.orphans and not self._shares.living:
                moves += self._begin_again()
            for move in moves:
                self._carry_out(move)
                self._tell_stream(move.stream, "taken over", f"by node {move.node}, epoch {move.epoch}", move.node)

    def _begin_again(self) -> list[Move]:
        """Begin on whatever nodes there are, now that none of ours is left."""
        if self._starts > MAX_STARTS:
            raise HyperframesError(
                f"all nodes were lost, {self._starts} times",
                hint="Too little memory, or a crash in native code? Run it with one stream, without --cluster, to see.",
            )
        self._begin_nodes()
        return self._shares.adopt()

    def _warn(self, message: str) -> None:
        self._observers.observe({"kind": "warning", "ns": time.monotonic_ns(), "message": message})

    def _tell_stream(self, stream: str, state: str, reason: str, node: str) -> None:
        told = {"stream": stream, "state": state, "reason": reason, "node": node, "spec": "", "epoch": -1}
        self._observers.observe({"kind": "stream", "ns": time.monotonic_ns(), "unix_ns": time.time_ns(), **told})


def _places(ray: Any) -> list[tuple[str, str, int, float]]:
    """Return (name, node id, GPUs, CPUs) of every coordinator to be: one a GPU, or one a node."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    alive.sort(key=lambda node: (node["NodeManagerHostname"], node["NodeManagerPort"]))
    several = Counter(node["NodeManagerHostname"] for node in alive)
    seen: Counter[str] = Counter()
    places = []
    for node in alive:
        host, gpus, cpus = node["NodeManagerHostname"], int(node["Resources"].get("GPU", 0)), node["Resources"]["CPU"]
        seen[host] += 1
        name = f"{host}-{seen[host]}" if several[host] > 1 else host
        places += [(f"{name}-gpu{gpu}", node["NodeID"], 1, cpus / gpus) for gpu in range(gpus)]
        if not gpus:
            places.append((name, node["NodeID"], 0, cpus))
    return places


def _why(error: Exception) -> str:
    """Return in a few words how a node was lost."""
    known = {
        "ActorDiedError": "its process ended",
        "ActorUnavailableError": "it cannot be reached",
        "NodeDiedError": "the machine was lost",
        "OutOfMemoryError": "the machine ran out of memory",
        "OwnerDiedError": "the machine was lost",
    }
    return known.get(type(error).__name__, type(error).__name__)
