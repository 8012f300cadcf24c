"""``hyperframes live``: many cameras, one latency budget, every frame accounted for."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import shlex
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from hyperframes.cli import _options, _serve, _show
from hyperframes.cli._told import Teller, check_results
from hyperframes.errors import HyperframesError, PipelineError, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hyperframes.drivers.live import LiveRuntime
    from hyperframes.drivers.live_cluster import LiveCluster
    from hyperframes.drivers.live_config import LiveConfig
    from hyperframes.drivers.live_journal import LiveJournal
    from hyperframes.drivers.live_outputs import LiveOutputs
    from hyperframes.drivers.replay import Rebuilt

    Live = LiveRuntime | LiveCluster

__all__ = ["live"]

SOURCES, PACKING, QUEUE, OUTPUT = "What comes in", "How frames are packed", "What happens under load", _options.OUTPUT
LINE_SECONDS = 10.0


def live(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Sources, packing, operators and outputs in TOML.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="[NAME=]URL",
            help="A camera (rtsp, udp, tcp, http, /dev/video0) or a file to replay; several times for several. Without a NAME "
            "it is camN: N counts these options from 0, or is the next number that is free.",
            rich_help_panel=SOURCES,
        ),
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(metavar="real|flat", help="How files are replayed.", show_default="real", rich_help_panel=SOURCES),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Stop after that.", show_default="when told", rich_help_panel=SOURCES),
    ] = None,
    operator: _options.Operators = None,
    model: _options.Model = None,
    size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Frames that a hyperframe owns; spatial: instants.",
            show_default="8; spatial 1",
            rich_help_panel=PACKING,
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Seal short after this.",
            show_default="1.5 times what a full one takes",
            rich_help_panel=PACKING,
        ),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="count|window|event|latency", help="What seals.", show_default="count", rich_help_panel=PACKING
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Of the trigger of that name.", show_default="500ms", rich_help_panel=PACKING
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="temporal|spatial|both",
            help="Frames of one stream, one instant of all streams, or both.",
            show_default="temporal",
            rich_help_panel=PACKING,
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How far from its instant a frame may be.",
            show_default="half a period",
            rich_help_panel=PACKING,
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Allowed from a frame to its result.", rich_help_panel=PACKING),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="latency-first|balanced|throughput-first",
            help="Size and timeout as usual for that.",
            rich_help_panel=PACKING,
        ),
    ] = None,
    queue: Annotated[
        int | None, typer.Option(metavar="N", help="Hyperframes that may wait.", rich_help_panel=QUEUE)
    ] = None,
    when_full: Annotated[
        str | None,
        typer.Option(
            metavar="drop_newest|drop_oldest|block|degrade",
            help="What happens when no more may wait.",
            show_default="drop_oldest",
            rich_help_panel=QUEUE,
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Age at which a hyperframe that waits is given up.", rich_help_panel=QUEUE),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Hyperframes worked on at once.", show_default="1", rich_help_panel=QUEUE),
    ] = None,
    on_gap: Annotated[
        str | None,
        typer.Option(
            metavar="reset|keep",
            help="What operators with state do where frames are missing.",
            show_default="reset",
            rich_help_panel=QUEUE,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|URL|-",
            help="Where results go: .jsonl (one line a frame; -: on stdout), .parquet, .csv, mqtt://, nats:// (rows of all "
            "streams), a video or a folder of images (pictures of each stream); several times for several.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write down what happens to every hyperframe.", rich_help_panel=OUTPUT),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep what comes in, so that 'replay' can make it again.", rich_help_panel=OUTPUT
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How old journal and recording become, such as 7d: what is older goes.",
            show_default="a million hyperframes, all frames",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="First work on what was sealed and not done when the last run ended, and go on with its .jsonl and .csv files; "
            "needs --journal and --record.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    serve: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve /metrics, /stats and /healthz.", rich_help_panel=OUTPUT),
    ] = None,
    no_drain: Annotated[
        bool,
        typer.Option("--no-drain", help="Give up what waits when stopped.", rich_help_panel=OUTPUT),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local",
            help="Share the sources out over the nodes of a Ray cluster; --journal and --record are folders on each.",
            show_default="this process",
            rich_help_panel=QUEUE,
        ),
    ] = None,
    quiet: _options.Quiet = False,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Pack live streams into hyperframes and run operators on them, until told to stop (Ctrl-C, SIGTERM).

    Stopping finishes what was captured; stopped again it gives up what waits. Every frame is accounted for in what is printed
    at the end.

    Example: hyperframes live --source door=rtsp://10.0.0.7/main --operator background --latency 500ms --journal door.journal
    """
    chosen = _configured(config, source)
    times = {"timeout": timeout, "window": window, "tolerance": tolerance, "latency": latency}
    packing: dict[str, Any] = {"size": size, "kind": kind, "trigger": trigger}
    packing |= {name: _options.duration(name, text) for name, text in times.items() if text is not None}
    run: dict[str, Any] = {"pace": pace, "queue": queue, "when_full": when_full, "workers": workers}
    run |= {"on_gap": on_gap, "preset": preset}
    run |= {name: _options.duration(name, text) for name, text in (("ttl", ttl), ("duration", duration)) if text}
    chosen.packing.update({name: value for name, value in packing.items() if value is not None})
    chosen.run.update({name: value for name, value in run.items() if value is not None})
    output = {"journal": journal, "record": record, "serve": serve, "cluster": cluster}
    chosen.output.update({name: str(value) for name, value in output.items() if value is not None})
    if keep is not None:
        from hyperframes.drivers.live_config import check_keep

        chosen.output["keep"] = _options.duration("keep", keep)
        check_keep(chosen.output["keep"])
    if to:
        chosen.output["to"] = to
    rows_on_stdout = "-" in _names(chosen)
    if as_json and rows_on_stdout:
        raise PipelineError("--to - and --json both write to standard output", hint="Leave one of them out.")
    chosen.operators = [*(operator or chosen.operators), *_options.model_stages(model or chosen.output.get("model"))]
    if not chosen.sources:
        raise PipelineError(
            "a live run needs a source", hint="For example: hyperframes live --source rtsp://10.0.0.7/main"
        )
    from hyperframes.drivers.interrupts import interrupts_apart

    with interrupts_apart():
        ended = _run(chosen, drain=not no_drain, resume=resume, quiet=quiet)
        print(json.dumps(ended.stats, indent=2)) if as_json else _print(
            ended.stats, sys.stderr if rows_on_stdout else sys.stdout
        )
    ended.check()


def _configured(config: Path | None, sources: list[str] | None) -> LiveConfig:
    from hyperframes.drivers.live_config import LiveConfig, read_live_config

    chosen = LiveConfig()
    if config is not None:
        try:
            chosen = read_live_config(config.read_text("utf-8"), str(config))
        except OSError as error:
            raise PipelineError(f"cannot read {config}: {error.strerror}", hint="Name a TOML file.") from error
        except UnicodeDecodeError as error:
            raise PipelineError(f"{config} is no text in UTF-8, which TOML is", hint="Name a TOML file.") from error
    for name, url in _named(sources or [], chosen.sources):
        if name in chosen.sources:
            where = "by --source" if config is None else f"by {config} or --source"
            raise PipelineError(
                f"two sources are named {name!r} {where}: each needs a name of its own",
                got=name,
                hint="For example: --source door=rtsp://10.0.0.7/main",
            )
        chosen.sources[name] = {"url": url}
    return chosen


def _named(texts: list[str], taken: Iterable[str]) -> list[tuple[str, str]]:
    """Return name and URL of each source; those without a name get the first number from their place on that is free."""
    parts = [text.partition("=") for text in texts]
    names = [name if equals and name.replace("-", "_").isidentifier() else "" for name, equals, _ in parts]
    known = {*taken, *names}
    for place, name in enumerate(names):
        if not name:
            names[place] = next(free for n in itertools.count(place) if (free := f"cam{n}") not in known)
            known.add(names[place])
    urls = [url if name == said else text for name, text, (said, _, url) in zip(names, texts, parts, strict=True)]
    return list(zip(names, urls, strict=True))


def _left_over(chosen: LiveConfig) -> Iterable[Rebuilt]:
    """Return what the last run of this journal had sealed and not brought to an end."""
    from hyperframes.drivers.replay import unfinished

    journal, record = (chosen.output.get(name) for name in ("journal", "record"))
    if chosen.output.get("cluster"):
        raise PipelineError(
            "--resume works on one journal: got --cluster, where each node has its own",
            hint="Resume a node's run where it ran: hyperframes live --journal DIR/NODE.journal --record DIR/NODE --resume",
        )
    if not journal or not record:
        raise PipelineError(
            f"--resume works on what a journal and a recording hold: got no --{'record' if journal else 'journal'}",
            hint="For example: --journal plant.journal --record recordings --resume",
        )
    return unfinished(Path(journal), Path(record)) if Path(journal).is_file() else ()


def _tell_not_continued(chosen: LiveConfig, names: list[str]) -> None:
    """Warn of files that will not hold what a killed run had delivered, and say how they are made again."""
    from hyperframes.drivers.journal_reading import JournalReader
    from hyperframes.drivers.live_outputs import tagged

    journal, record = Path(chosen.output["journal"]), chosen.output["record"]
    if not journal.is_file():
        return
    with JournalReader(journal) as reader:
        last = next(iter(reader.runs()[-1:]), None)
        if last is None or last.outcome:
            return
        where = f"run = {last.run} and outcome = delivered"
        frames = sum(reader.find(where, limit=0).outcomes.values())
    stages = [part for stage in chosen.operators for part in ("--operator", stage)]
    for name in names if frames else ():
        again = ["--where", where, *stages, "--to", tagged(name, f"-run{last.run}")]
        command = shlex.join(["hyperframes", "replay", str(journal), "--record", record, *again])
        _show.tell(
            "warning",
            f"{name} does not hold the {frames} frames that the killed run had delivered; this makes a file of them: {command}",
        )


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a run ended."""

    stats: dict[str, Any]
    failures: tuple[HyperframesError, ...]
    """Why outputs were given up."""
    first_error: str
    """Of operators."""
    cut_short: bool
    """Whether somebody did not wait for it to drain."""
    reader_left: bool
    """Whether nobody reads standard output any more."""

    def check(self) -> None:
        """Raise what makes a run more or less than done."""
        stats = self.stats
        check_results(stats, self.failures, self.first_error)
        if self.cut_short:
            left = f", {stats['in_flight']} left as they were" if stats["in_flight"] else ""
            raise _show.Interrupted(
                "interrupted before all that was captured was worked on: "
                f"{stats['dropped'].get('cancelled', 0)} frames were given up{left}",
                hint="Outputs hold what was delivered. Wait after the first signal to have all of it.",
            )
        if self.reader_left:
            raise BrokenPipeError


def _run(chosen: LiveConfig, *, drain: bool, resume: bool, quiet: bool) -> _Ended:
    """Run, and return how it ended."""
    left = _left_over(chosen) if resume else ()
    teller = Teller(quiet=quiet)
    with contextlib.ExitStack() as stack:
        console = stack.enter_context(_serve.serving(chosen.output.get("serve"), quiet=quiet))
        outputs = stack.enter_context(_outputs(chosen, resume=resume))
        if resume and outputs is not None and outputs.not_continued:
            _tell_not_continued(chosen, outputs.not_continued)
        watching = tuple(i for i in (console, teller) if i is not None)
        if chosen.output.get("cluster"):
            runtime: Live = _make_cluster(chosen, outputs, watching)
            journal = None
        else:
            runtime, journal = _make_runtime(chosen, outputs, watching, left, stack)
        if outputs is not None:
            outputs.watch(runtime.outputs)
        if console is not None:
            console.watch(runtime.stats, None if journal is None else journal.stats)
        stats, cut_short = _carry_out(runtime, chosen, outputs, drain=drain, quiet=quiet)
        for warning in (*runtime.warnings, *(() if journal is None else journal.warnings)):
            _show.tell("warning", warning)
    failures, reader_left = ((), False) if outputs is None else (tuple(outputs.failures), outputs.reader_left)
    return _Ended(stats, failures, teller.first_error, cut_short, reader_left)


def _settings(chosen: LiveConfig) -> dict[str, Any]:
    """Return what a run is told besides its packing and its ends."""
    run = {name: value for name, value in chosen.run.items() if name not in {"duration", "preset"}}
    options = {name: run.pop(name) for name in ("boundary", "pixel_format") if name in run}
    return {"operator": chosen.operators or None, "options": options, **run}


def _make_runtime(
    chosen: LiveConfig,
    outputs: LiveOutputs | None,
    watching: tuple[Any, ...],
    left: Iterable[Rebuilt],
    stack: contextlib.ExitStack,
) -> tuple[LiveRuntime, LiveJournal | None]:
    from hyperframes.drivers.live import LiveRuntime

    journal = None
    if path := chosen.output.get("journal"):
        from hyperframes.drivers.live_journal import LiveJournal, Retention

        journal = stack.enter_context(LiveJournal(Path(path), retention=Retention.of(chosen.output.get("keep"))))
    recorder = None
    if folder := chosen.output.get("record"):
        from hyperframes.media.recording import Keep, Recorder

        recorder = Recorder(folder, Keep.of(chosen.output.get("keep")))
        stack.callback(recorder.close)
    runtime = LiveRuntime(
        packing=chosen.make_packing(),
        on_result=outputs,
        recorder=recorder,
        resume=left,
        instruments=watching if journal is None else (journal, *watching),
        first_sequence=0 if journal is None else journal.next_sequence,
        **_settings(chosen),
    )
    return runtime, journal


def _make_cluster(chosen: LiveConfig, outputs: LiveOutputs | None, watching: tuple[Any, ...]) -> LiveCluster:
    from hyperframes.drivers.live_cluster import LiveCluster

    return LiveCluster(
        cluster=chosen.output["cluster"],
        packing=chosen.make_packing(),
        on_result=outputs,
        instruments=watching,
        journal=chosen.output.get("journal", ""),
        record=chosen.output.get("record", ""),
        keep=chosen.output.get("keep"),
        **_settings(chosen),
    )


def _carry_out(
    runtime: Live, chosen: LiveConfig, outputs: LiveOutputs | None, *, drain: bool, quiet: bool
) -> tuple[dict[str, Any], bool]:
    """Run until the sources end, the time is over, nobody reads, or somebody stops it; then stop it, see `_stop`."""
    signals = 0
    try:
        runtime.start()
        with _progress(runtime, quiet=quiet):
            _capture(runtime, chosen, outputs)
    except KeyboardInterrupt:
        signals = 1
        _tell_stopping(signals, drain=drain, quiet=quiet)
    except BaseException:
        runtime.stop(drain=False)
        raise
    wanted = outputs is None or not outputs.reader_left or outputs.writes
    stats, cut_short = _stop(runtime, signals, drain=drain and wanted, quiet=quiet)
    if not stats["captured"]:
        why = "Run it again without --quiet to read why" if quiet else "Their reasons stand above"
        raise _show.RunFailed("no source brought a frame", hint=f"{why}; --source takes URLs and files.")
    return stats, cut_short


def _capture(runtime: Live, chosen: LiveConfig, outputs: LiveOutputs | None) -> None:
    """Begin to capture, and wait until there is a reason to stop."""
    for name, options in chosen.sources.items():
        given = dict(options)
        runtime.add_source(name, given.pop("url"), **given)
    seconds = chosen.run.get("duration")
    end = None if seconds is None else time.monotonic() + seconds
    while (end is None or time.monotonic() < end) and not runtime.wait(0.2):
        if outputs is not None and outputs.reader_left:
            return


def _stop(runtime: Live, signals: int, *, drain: bool, quiet: bool) -> tuple[dict[str, Any], bool]:
    """Stop, and return the last stats, and whether something was given up because somebody did not wait for it.

    The second signal gives up what has not started, the third what has too, since an operator may hang.
    """
    while True:
        try:
            stats = runtime.stop(drain=drain and signals < 2)
            break
        except KeyboardInterrupt:
            signals += 1
            _tell_stopping(signals, drain=drain, quiet=quiet)
            if signals > 2:
                stats = runtime.stats()
                break
    return stats, signals > 1 and bool(stats["dropped"].get("cancelled") or stats["in_flight"])


def _tell_stopping(signals: int, *, drain: bool, quiet: bool) -> None:
    if not quiet:
        first = "what was captured is finished first" if drain else "what waits is given up"
        _show.tell(
            "stopping", (first, "what waits is given up", "what is being worked on is left as it is")[signals - 1]
        )


def _names(chosen: LiveConfig) -> list[str]:
    """Return where results are to go."""
    names: str | list[str] = chosen.output.get("to", [])
    return [names] if isinstance(names, str) else names


@contextlib.contextmanager
def _outputs(chosen: LiveConfig, *, resume: bool) -> Iterator[LiveOutputs | None]:
    """Give what writes results to where they are to go; None if nowhere. Finished in the end, given up on errors."""
    from hyperframes.drivers.interrupts import interrupts_held
    from hyperframes.drivers.live_outputs import LiveOutputs

    names = _names(chosen)
    if not names:
        yield None
        return
    given = chosen.output
    kept = bool(given.get("journal") and given.get("record")) and not given.get("cluster")
    pixels = not given.get("cluster")
    warn = functools.partial(_show.tell, "warning")
    outputs = LiveOutputs(names, chosen.sources, warn, pixels=pixels, kept=kept, resumed=resume)
    try:
        yield outputs
    except BaseException:
        outputs.abort()
        raise
    with interrupts_held():  # what is whole gets its name
        outputs.finish()


@contextlib.contextmanager
def _progress(runtime: Live, *, quiet: bool) -> Iterator[None]:
    """Tell every ten seconds how it goes; on a terminal four times a second, in one line."""
    if quiet:
        yield
        return
    over, terminal = threading.Event(), sys.stderr.isatty()

    def tell() -> None:
        while not over.wait(0.25 if terminal else LINE_SECONDS):
            line = progress_line(runtime.stats())
            print(f"\r\x1b[K{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
        if terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, name="hyperframes-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def progress_line(stats: dict[str, Any]) -> str:
    """Return frames, frames a second, what is in flight, dropped, and the lag in one line."""
    rate = sum(stream["fps"] for stream in stats["streams"].values())
    lag = stats["latency_seconds"].get("total", {}).get("p99", 0.0)
    parts = [
        f"{stats['delivered']:,} frames of {len(stats['streams'])} streams",
        f"{rate:,.1f} frames/s",
        f"{sum(stats['dropped'].values()):,} dropped",
        f"{stats['queue']['depth']} waiting",
        f"p99 {1000 * lag:.0f} ms",
    ]
    return ", ".join(parts)


def _print(stats: dict[str, Any], file: TextIO) -> None:
    from rich.table import Table

    from hyperframes.drivers.quantity import count_text

    table = Table(box=None, pad_edge=False)
    for name in ("stream", "captured", "delivered", "dropped", "why", "reconnects"):
        table.add_column(name, justify="left" if name in {"stream", "why"} else "right")
    for name, stream in stats["streams"].items():
        dropped = stream["dropped"]
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        row = (without_credentials(name), stream["captured"], stream["delivered"], sum(dropped.values()), why)
        table.add_row(*map(str, (*row, stream["reconnects"])))
    _show.console(file).print(table)
    total = stats["latency_seconds"].get("total")
    latency = f"; latency p50 {1000 * total['p50']:.1f} ms, p99 {1000 * total['p99']:.1f} ms" if total else ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in stats["sealed"].items())
    print(
        f"{stats['captured']} captured = {stats['delivered']} delivered + {sum(stats['dropped'].values())} dropped"
        f" + {stats['in_flight']} in flight; {count_text(stats['hyperframes'], 'hyperframe')} (sealed: {reasons}){latency}",
        file=file,
    )
