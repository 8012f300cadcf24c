"""Nothing grows with the length: peak memory of a long run against that of its beginning."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
_MEASURE = """
import json, sys
import hyperframes as hf

class Growth:
    '''Memory against frames delivered, sampled by the run itself.'''
    def __init__(self):
        self.frames, self.samples = 0, []
    def observe(self, seen):
        if seen['kind'] == 'emitted':
            self.frames = seen['core'][1]
        elif seen['kind'] == 'memory':
            self.samples.append((self.frames, seen['bytes']))

source, operator, sink, stop = sys.argv[1:5]
growth = Growth()
result = hf.run(source, operator, to=sink, range=(0, int(stop) or None), instruments=(growth,))
print(json.dumps({'peak': result.peak_memory_bytes, 'frames': result.frames_out, 'samples': growth.samples}))
"""


def measured(source, operator, sink, stop=0):
    """Run in a process of its own, so that no other test's memory counts."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(source), operator, str(sink), str(stop)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.requirement("A56")
def test_six_minutes_of_video_take_no_more_memory_than_their_first_ten_seconds(media):
    path = media / "video" / "long_180p_av1.mp4"
    short = measured(path, "temporal_mean:radius=2", "null:", 600)
    whole = measured(path, "temporal_mean:radius=2", "null:")
    assert (short["frames"], whole["frames"]) == (600, 21_766)
    assert whole["peak"] - short["peak"] < 20e6


_BY_RAY = """
import json, sys
from pathlib import Path
import hyperframes as hf
from tests.drivers.cluster_operators import Weighed, peak_bytes

source, folder, stop = sys.argv[1:]
notes = Path(folder) / 'notes'
notes.mkdir()
how = {'executor': 'ray', 'workers': 1, 'range': (0, int(stop) or None)}
result = hf.run(source, ['temporal_mean:radius=2', Weighed(notes)], to=str(Path(folder) / 'out.mp4'), **how)
workers = [int(note.read_text()) for note in notes.iterdir()]
told = {'frames': result.frames_out, 'warnings': result.warnings, 'workers': workers, 'driver': peak_bytes()}
print(json.dumps(told))
"""


def measured_by_ray(source, folder, stop=0):
    """Run it on a cluster of its own, segment by segment; return the most memory that the driver and each worker held."""
    folder.mkdir()
    command = [sys.executable, "-c", _BY_RAY, str(source), str(folder), str(stop)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=ROOT)
    return json.loads(done.stdout)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.requirement("A56")
@pytest.mark.requirement("A97")
def test_six_minutes_on_a_cluster_take_no_more_memory_of_any_process_than_the_first_minute(media, tmp_path):
    path = media / "video" / "long_180p_av1.mp4"
    short, whole = (measured_by_ray(path, tmp_path / str(stop), stop) for stop in (3600, 0))
    assert (short["frames"], whole["frames"]) == (3600, 21_766)
    assert not any("not cut" in warning for warning in whole["warnings"])
    assert max(whole["workers"]) - max(short["workers"]) < 20e6
    assert whole["driver"] - short["driver"] < 20e6


def textured(path, repeats, height=720, width=1280):
    """Write 100 different textured frames `repeats` times by copying packets: quick, long, and not black."""
    rng = np.random.default_rng(5)
    wide = np.kron(rng.integers(0, 256, (height // 12, width // 12), np.uint8), np.ones((16, 16), np.uint8))
    with av.open(str(path.with_suffix(".part.mkv")), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast", "g": "100", "bf": "0"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for t in range(100):
            grey = np.ascontiguousarray(wide[2 * t : 2 * t + height, 3 * t : 3 * t + width])
            frame = av.VideoFrame.from_ndarray(
                np.concatenate([grey, np.full((height // 2, width), 128, np.uint8)]), "yuv420p"
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(path.with_suffix(".part.mkv"))) as source, av.open(str(path), "w") as container:
        packets = [(bytes(p), p.is_keyframe) for p in source.demux(video=0) if p.size]
        stream = container.add_stream_from_template(source.streams.video[0])
        for t in range(repeats * len(packets)):
            data, is_key = packets[t % len(packets)]
            packet = av.Packet(data)
            packet.stream, packet.pts, packet.dts, packet.time_base = stream, t, t, Fraction(1, 30)
            packet.is_keyframe = is_key
            container.mux(packet)


_PLANNED = """
import json, sys
import hyperframes as hf

class Plan:
    def observe(self, seen):
        if seen['kind'] == 'began':
            self.memory = seen['setup'].memory().total

plan = Plan()
result = hf.run(sys.argv[1], 'temporal_mean:radius=2', to='null:', workers=2, instruments=(plan,))
print(json.dumps({'planned': plan.memory, 'peak': result.peak_memory_bytes, 'size': result.size}))
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.requirement("A56")
def test_full_hd_video_takes_the_memory_that_was_planned(tmp_path):
    path = tmp_path / "wide.mkv"
    textured(path, repeats=1, height=1080, width=1920)
    done = subprocess.run(
        [sys.executable, "-c", _PLANNED, str(path)], capture_output=True, text=True, timeout=300, check=True
    )
    told = json.loads(done.stdout)
    assert told["size"] == 8
    assert told["peak"] < 380e6
    assert abs(told["peak"] - told["planned"]) < 0.15 * told["planned"]


@pytest.mark.slow
@pytest.mark.alone
def test_the_slope_over_twenty_thousand_textured_frames_is_under_100_bytes_a_frame(tmp_path):
    path = tmp_path / "textured.mkv"
    textured(path, repeats=200)
    # What else runs on the machine shifts how many frames the decoder holds; growth with the length would stay.
    assert min(slope_of(measured(path, "temporal_mean:radius=1", "null:")) for _ in range(3)) < 100


def slope_of(seen):
    """Return bytes a frame between the medians of an early and a late stretch of the run."""
    assert seen["frames"] == 20_000
    frames, sizes = np.array(seen["samples"], float).T
    early, late = (frames > 3_000) & (frames < 9_000), frames > 14_000
    assert early.sum() > 5
    assert late.sum() > 5
    return (np.median(sizes[late]) - np.median(sizes[early])) / (np.median(frames[late]) - np.median(frames[early]))
