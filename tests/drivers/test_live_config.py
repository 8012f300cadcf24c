"""What a live run is told is refused in a sentence that names the line, or it works: nothing in between."""

import contextlib
import math
import string

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.drivers.live_runs import Run, picture

import hyperframes as hf
from hyperframes.drivers.feeders import is_camera
from hyperframes.drivers.live_config import check_run, read_live_config
from hyperframes.errors import HyperframesError, without_credentials

KEYS = {
    "packing": [
        *("size", "timeout", "kind", "trigger", "window", "event", "latency", "tolerance", "lateness", "pad"),
    ],
    "run": [
        *("queue", "when_full", "ttl", "on_gap", "workers", "join", "pace", "preset", "duration", "boundary"),
        "pixel_format",
    ],
    "output": ["journal", "record", "keep", "to", "serve", "model", "cluster"],
    "sources.door": ["url", "priority", "pace", "rate", "transport"],
    "stages": ["operator", "name"],
}
VALUES = [
    *("0", "1", "-1", "7", "1e300", "-0.5", "nan", "inf", "-inf", "9223372036854775808", "true", "false"),
    *(
        '""',
        '"0ms"',
        '"1e9s"',
        '"200ms"',
        '"99999999999999999999min"',
        '"spatial"',
        '"gaussian"',
        '"\\u0000"',
        '"a\\nb"',
    ),
    *("[]", "[1]", '["a", 2]', '["gaussian"]', "{}", "{ url = 1 }", "1979-05-27", "12:00:00", "0.0000000001"),
]


def read(text):
    """Return configuration and packing, or why they are refused."""
    try:
        config = read_live_config(text, "plant.toml")
        packing = config.make_packing()
        check_run(**config.run)
    except HyperframesError as error:
        return None, None, str(error)
    return config, packing, ""


@settings(max_examples=400, deadline=None)
@given(
    where=st.sampled_from([(table, key) for table, keys in KEYS.items() for key in keys]), value=st.sampled_from(VALUES)
)
@example(where=("packing", "timeout"), value="inf")
@example(where=("packing", "window"), value="0.0000000001")
@example(where=("run", "ttl"), value="nan")
@example(where=("run", "queue"), value="9223372036854775808")
def test_any_value_of_any_key_works_or_is_refused_with_its_line(where, value):
    table, key = where
    head = "[[stages]]" if table == "stages" else f"[{table}]"
    text = f"# plant\n{head}\n{key} = {value}\n"
    config, packing, refused = read(text)
    if refused:
        assert "needs a url" in refused or any(f"plant.toml, line {line}:" in refused for line in (2, 3)), refused
        return
    for name in ("timeout", "window", "latency", "tolerance", "lateness"):
        assert getattr(packing, name) is None or math.isfinite(getattr(packing, name))
    run = {name: config.run[name] for name in ("queue", "ttl", "on_gap", "pace", "when_full") if name in config.run}
    live = Run(packing=packing, **run)
    with contextlib.suppress(hf.PipelineError):  # where so much memory is not there
        live.play(["door"], 3)
    live.stop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages = [1]\n", r"\[\[stages\]\] is a list of tables: got \[1\]"),
        ('stages = ["gaussian"]\n', r"\[\[stages\]\] is a list of tables: got \['gaussian'\]"),
        ('[[stages]]\noperator = "denoise"\nname = "clean"\n', r"line 3: \[stages\] has no 'name'; known: operator"),
        ("[run]\n\nttl = -1\n", r"line 3: ttl: expected a time from 0 to 1e\+09 seconds, got -1"),
        ("[output]\nkeep = 0\n", "line 2: keep: expected more than 0 seconds, got 0.0"),
        ("[run]\nttl = 0\n", "line 2: ttl: expected more than 0 seconds, got 0.0"),
        ("[run]\nduration = nan\n", "line 2: duration: expected a time from 0"),
        ("[packing]\ntimeout = inf\n", "line 2: timeout: expected a time from 0"),
        ("[packing]\nwindow = 1e-10\n", "line 2: packing.window: expected from 1e-06 to"),
        ('[sources]\nfine = "rtsp://h/x"\n".." = "rtsp://h/x"\n', "line 3: the name of a stream is text of 1 to 96"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(text, message):
    with pytest.raises(hf.PipelineError, match=message):
        read_live_config(text, "plant.toml")


@pytest.mark.parametrize("name", ["timeout", "window", "latency", "tolerance", "lateness"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, True, "200ms", 1e-9, 1e10])
def test_times_of_a_packing_are_seconds(name, value):
    if name == "lateness" and value == 1e-9:
        return  # a frame may be on time
    with pytest.raises(hf.PipelineError, match=f"packing.{name}: expected from .* seconds, got"):
        hf.Packing(**{name: value})


@pytest.mark.parametrize("size", [True, 1.0, "8", 0, -3])
def test_the_size_of_a_packing_is_a_number_of_frames(size):
    with pytest.raises(hf.PipelineError, match="expected at least 1, got"):
        hf.Packing(size=size)


@pytest.mark.parametrize(
    "options", [{"queue": "3"}, {"workers": True}, {"join": 1.5}, {"ttl": math.nan}, {"ttl": 0}, {"ttl": "1s"}]
)
def test_numbers_of_a_run_are_numbers(options):
    with pytest.raises(hf.PipelineError, match=f"{next(iter(options))}: expected"):
        hf.LiveRuntime(**options)


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", ".", "..", "...", "a\nb", "a\0b", "\x1b[31mred", "x" * 97, 7, None, b"cam"])
@pytest.mark.parametrize("how", ["sources", "add_source", "feed", "inlet"])
def test_names_that_no_file_and_no_screen_takes_are_refused(name, how):
    run = Run()
    act = {
        "sources": lambda: hf.LiveRuntime({name: [picture(0)]}).start(),
        "add_source": lambda: run.live.add_source(name, [picture(0)]),
        "feed": lambda: run.live.feed(name, picture(0)),
        "inlet": lambda: run.live.inlet(name),
    }[how]
    with pytest.raises(hf.PipelineError, match="the name of a stream is text of 1 to 96 printable characters"):
        act()
    assert run.stop()["streams"] == {}


@pytest.mark.parametrize("name", ["door", "Tür 3", "カメラ", "a/b", "rtsp://h/x", "x" * 96, ".hidden"])
def test_other_names_are_taken(name):
    run = Run(packing=hf.Packing(size=2))
    run.play([name], 2)
    assert list(run.stop()["streams"]) == [name]


# Sources --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["rtsp", "rtsps", "RTSP", "udp", "tcp", "srt", "rtmp"])
def test_what_is_streamed_is_a_camera_whatever_its_path_ends_in(scheme):
    assert is_camera(f"{scheme}://host/recordings/x.mp4")


def test_what_a_web_server_has_is_a_file_by_its_name():
    assert not is_camera("https://host/x.mp4?token=1")
    assert not is_camera("http://host/x.MKV")
    assert is_camera("http://host/x.mjpg")
    assert is_camera("http://host/live?file=x.mp4")
    assert is_camera("http://host/live.m3u8")
    assert is_camera("/dev/video0")
    assert not is_camera("clip.mp4")


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("clip.mp4", {"transport": "udp"}, "source 'door' is replayed and takes pace and rate: got transport"),
        ("rtsp://127.0.0.1:1/x", {"rate": 25}, "source 'door' is a camera: it tells its rate itself"),
        ("clip.mp4", {"rate": -1}, "rate: expected more than 0 frames a second, got -1"),
        ("clip.mp4", {"rate": math.inf}, "rate: expected more than 0 frames a second, got inf"),
        ("clip.mp4", {"pace": "fast"}, "pace: expected one of real, flat, got 'fast'"),
        ("rtsp://127.0.0.1:1/x", {"transport": "smoke"}, "RTSP goes over 'tcp' or 'udp'"),
    ],
)
def test_options_that_a_source_does_not_have_are_refused_and_leave_its_name_free(what, options, message):
    run = Run(packing=hf.Packing(size=2))
    with pytest.raises(hf.PipelineError, match=message):
        run.live.add_source("door", what, **options)
    run.play(["door"], 2)
    assert run.stop()["delivered"] == 2


# Credentials ----------------------------------------------------------------------------------------------------------

PRINTABLE = string.ascii_letters + string.digits + string.punctuation


@settings(max_examples=1000)
@given(
    user=st.text("abcXYZ09_-.!~*", min_size=1, max_size=8),
    password=st.text(PRINTABLE, min_size=1, max_size=20).map(lambda text: f"S3{text}Z9"),
    scheme=st.sampled_from(["rtsp", "rtsps", "http", "https", "tcp", "mqtt", "nats", "rtmp"]),
    rest=st.sampled_from(["", ":554", "/main", ":8554/a/b?x=1&y=2", "/live.mp4#t=3"]),
)
@example(user="u", password="S3@?Z9", scheme="rtsp", rest="")
@example(user="admin", password='S3<"/?#@:>Z9', scheme="rtsp", rest=":554/main")
def test_no_password_is_told_whatever_stands_in_it(user, password, scheme, rest):
    shown = without_credentials(f"{scheme}://{user}:{password}@10.0.0.7{rest}")
    assert shown == f"{scheme}://***@10.0.0.7{rest}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open 'rtsp://u:p/w?x#y@h/main': refused", "cannot open 'rtsp://***@h/main': refused"),
        ('{"a":"rtsp://u:p/q@h:554/x","b":"x@y"}', '{"a":"rtsp://***@h:554/x","b":"x@y"}'),
        ('{"a":"rtsp://h:554/x","b":"x@y"}', '{"a":"rtsp://h:554/x","b":"x@y"}'),
        ('got "rtsp://h:554/x", mail me@x', 'got "rtsp://h:554/x", mail me@x'),
        ("<rtsp://u:p@h/x>", "<rtsp://***@h/x>"),
        ("rtsp://token@h/x?mail=a@b", "rtsp://***@h/x?mail=a@b"),
        ("rtsp://[::1]:554/a@b", "rtsp://[::1]:554/a@b"),
        ("rtsp://u:p@[::1]:554/a", "rtsp://***@[::1]:554/a"),
        ("https://h:8080/cam@front.mp4", "https://h:8080/cam@front.mp4"),
    ],
)
def test_in_sentences_what_is_no_credential_stays(text, shown):
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "url", ["rtsp://admin:pa/XX@h/x", "rtsp://admin:p?XX@h", "rtsp://admin:p XX@h/x", "tcp://h/XX b"]
)
def test_a_url_that_no_one_can_read_is_refused_without_telling_it(url):
    run = Run()
    with pytest.raises(hf.PipelineError, match=r"has a space, or a password with / \? or # in it") as refused:
        run.live.add_source("door", url)
    assert "XX" not in str(refused.value)
    assert "%2F" in refused.value.hint
    run.stop()


@pytest.mark.parametrize("kind", ["temporal", "spatial"])
def test_hyperframes_that_do_not_fit_the_memory_are_refused(kind):
    run = Run(packing=hf.Packing(size=10**12, kind=kind))
    with pytest.raises(hf.PipelineError, match=r"hyperframes with room for [\d,]+ frames of .* need [\d,.]+ TB"):
        run.feed("door", 0)
    run.stop()


def test_numpy_numbers_are_numbers():
    assert hf.Packing(size=8, timeout=np.float64(0.2)).timeout == 0.2
