"""Errors become text in one place: a sentence, a hint, an exit code."""

import errno
import re

import pytest
import typer

from hyperframes.cli._app import app
from hyperframes.cli._show import COMMANDS, Interrupted, RunBegins, RunFailed, _state, told
from hyperframes.errors import (
    CancelledError,
    FrameError,
    MissingExtraError,
    OperatorError,
    PipelineError,
    RegistryError,
    SchedulingError,
    SinkError,
    SourceError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SourceError("x"), 1),
        (SinkError("x"), 2),  # before the run begins: see below
        (FrameError("x"), 1),
        (OperatorError("x"), 1),
        (MissingExtraError("the zarr sink", "zarr"), 1),
        (SchedulingError("x"), 1),
        (RunFailed("x"), 1),
        (MemoryError(), 1),
        (ValueError("x"), 1),
        (PipelineError("x"), 2),
        (RegistryError("operator", "x", ["y"]), 2),
        (Interrupted("x"), 130),
        (CancelledError("x"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error, code, monkeypatch):
    monkeypatch.setitem(_state, "running", False)
    assert told(error).code == code


def test_a_sink_that_fails_while_frames_flow_is_no_wrong_usage(monkeypatch):
    monkeypatch.setitem(_state, "running", False)
    RunBegins().observe({"kind": "sealed"})
    assert told(SinkError("x")).code == 2
    RunBegins().observe({"kind": "began"})
    assert told(SinkError("x")).code == 1


def test_an_error_is_one_line_whatever_it_carries():
    text = told(SchedulingError("it cannot be", events=("a", "b")))
    assert text.message == "it cannot be; the last events were:"
    assert text.hint == "This is a bug in hyperframes: please report it with this message."


def test_errors_of_the_system_say_what_and_where():
    text = told(PermissionError(errno.EACCES, "Permission denied", "/root/x"))
    assert text.message == "permission denied: /root/x"
    assert "--debug" in text.hint


def test_out_of_memory_says_what_to_make_smaller():
    assert told(MemoryError()).hint == "Use a smaller --size, fewer --workers, or --max-memory."


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["rum"], "no such command 'rum'", "Did you mean 'run'?"),
        (["zzz"], "no such command 'zzz'", "See 'hyperframes --help'."),
        (["run", "a", "b", "--report-to", "x"], "no such option: --report-to", "Did you mean '--report'?"),
        (["run", "a", "b", "--size"], "option '--size' requires an argument", "See 'hyperframes run --help'."),
        (["plan", "a", "b"], "got unexpected extra argument(s) (b)", "See 'hyperframes plan --help'."),
    ],
)
def test_wrong_usage_reads_like_every_other_error(call, arguments, error, hint):
    outcome = call(*arguments)
    assert (outcome.code, outcome.error, outcome.hint, outcome.out) == (2, error, hint, "")


def test_without_a_command_the_help_is_shown(call):
    outcome = call()
    assert outcome.code == 0
    assert "run" in outcome.out
    assert "doctor" in outcome.out


def test_the_version_is_told(call):
    import hyperframes

    assert call("--version").out == f"hyperframes {hyperframes.__version__}\n"


def test_hints_know_the_commands_that_there_are():
    names = {command.callback.__name__ for command in app.registered_commands}
    assert names == set(COMMANDS)


def test_ctrl_c_outside_of_a_run_is_an_interruption_too(call, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("hyperframes.drivers.doctor.examine", interrupted)
    outcome = call("doctor")
    assert (outcome.code, outcome.error, outcome.out) == (130, "interrupted", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_paragraphs_of_help_are_broken_by_the_terminal_alone_and_more_is_said_to_follow_once(call, name):
    command = typer.main.get_command(app).commands[name]
    assert "\n" not in command.help.replace("\n\n", "")
    usage = next(line for line in call(name, "--help").out.splitlines() if "Usage:" in line)
    assert not re.search(r"\.\.\..?\.\.\.|\.\.\. .*\]\.\.\.", usage)
