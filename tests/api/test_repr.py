"""What the main objects look like at a prompt: one short line that says what they are."""

import numpy as np
import pytest

import hyperframes as hf

FRAMES = np.zeros((5, 4, 6), np.uint8)


def shown():
    run = hf.start(FRAMES, "denoise", size=2)
    run.wait()
    source = hf.open(FRAMES)
    hyperframe = next(source.hyperframes(size=2, halo=1))
    live = hf.LiveRuntime(packing=hf.Packing(size=2))
    return {
        "run": (repr(run), "5 of 5 frames out"),
        "report": (repr(hf.run(FRAMES, "denoise").report()), "5 frames: .save('report.html'), .to_json()"),
        "source": (repr(source), "5 frames"),
        "frame": (repr(source[3]), "Frame(#3"),
        "clip": (repr(source[1:3]), "Clip(2 frames"),
        "hyperframe": (repr(hyperframe), "core [0, 2)"),
        "header": (repr(hyperframe.header), "core [0, 2], read [0, 3], pads 1 + 0, sealed: full"),
        "sink": (repr(hf.open_sink("out.npy")), "('out.npy')"),
        "live": (repr(live), "LiveRuntime(no streams yet; size 2, temporal)"),
    }


@pytest.fixture(scope="module")
def lines():
    return shown()


@pytest.mark.parametrize("name", ["run", "report", "source", "frame", "clip", "hyperframe", "header", "sink", "live"])
def test_it_is_one_line_that_says_what_it_is(lines, name):
    line, part = lines[name]
    assert part in line
    assert "\n" not in line
    assert " object at 0x" not in line
    assert len(line) < 200


def test_streams_of_a_live_run_are_named_without_what_opens_doors():
    with hf.LiveRuntime(packing=hf.Packing(size=2)) as live:
        live.feed("rtsp://admin:secret@10.0.0.7/main", FRAMES[0])
        assert "secret" not in repr(live)
        assert "rtsp://***@10.0.0.7/main" in repr(live)
