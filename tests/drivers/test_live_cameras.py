"""Live runs over real RTSP cameras: whose pictures tell their own number."""

import time

import numpy as np
import pytest
from tests.drivers.live_runs import check_ledger
from tests.farm import Cameras, have_programs
from tests.farm.clip import counter, encoded, write_units

import hyperframes as hf

CAMERAS = 4
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    have_programs()
    return write_units(tmp_path_factory.mktemp("clip") / "small", encoded(600, 96, 128))


@hf.operator(planes=True)
def numbers(planes):
    return np.array([[counter(luma)] for luma in planes[0]], np.int64)


class Told(list):
    observe = list.append


def run_until(live, results, count, seconds=20.0, since=0, stream=None):
    """Wait until there are so many results since then, of one stream if it is named."""
    end = time.monotonic() + seconds
    while sum(stream in {None, r.stream} for r in results[since:]) < count and time.monotonic() < end:
        check_ledger(live.stats())
        time.sleep(0.05)


@pytest.mark.requirement("B94", "B69", "X16")
def test_a_spatial_hyperframe_of_real_cameras_holds_one_instant(clip):
    results, told = [], Told()
    with Cameras(clip, cameras=CAMERAS) as server:
        live = hf.LiveRuntime(
            {f"cam{i}": server.url(i) for i in range(CAMERAS)},
            packing=hf.Packing(kind="spatial"),
            operator=numbers,
            on_result=results.append,
            instruments=(told,),
        )
        with live:
            run_until(live, results, CAMERAS * 120)
    check_ledger(live.stats())
    whole = [seen for seen in told if seen["kind"] == "delivered" and seen["frames"] == CAMERAS]
    by_capture = [seen for seen in whole if seen["clocks"][0] == "capture"]
    assert len(by_capture) > 20
    for seen in by_capture:
        assert seen["pts"].max() - seen["pts"].min() <= 1e9 / 30 + 4e6
    shown = {(r.stream, r.sequence): int(r.value[0]) for r in results}
    apart = [
        tuple((shown[f"cam{i}", seen["hyperframe"]] - shown["cam0", seen["hyperframe"]]) % 600 for i in range(CAMERAS))
        for seen in by_capture
    ]
    usual = max(set(apart), key=apart.count)
    assert apart.count(usual) >= 0.9 * len(apart)  # the cameras' counters stand apart as they began, in every instant


@pytest.mark.requirement("B54")
def test_a_camera_that_freezes_takes_nothing_from_the_others(clip):
    results, told = [], Told()
    with Cameras(clip, cameras=CAMERAS) as server:
        live = hf.LiveRuntime(
            {f"cam{i}": server.url(i) for i in range(CAMERAS)},
            packing=hf.Packing(size=4),
            operator=numbers,
            on_result=results.append,
            instruments=(told,),
        )
        with live:
            run_until(live, results, CAMERAS * 30)
            server("freeze", 2)
            before = time.monotonic_ns()
            run_until(live, results, CAMERAS * 60, since=len(results))
            server("thaw", 2)
            thawed = len(results)
            run_until(live, results, 20, since=thawed, stream="cam2")
    check_ledger(live.stats())
    stale = [
        seen for seen in told if seen["kind"] == "stream" and seen["state"] == "stale" and seen["stream"] == "cam2"
    ]
    assert stale
    assert (stale[0]["ns"] - before) / 1e9 < 2.0
    assert "cam2" in {result.stream for result in results[thawed:]}
    for name in ("cam0", "cam1", "cam3"):
        shown = np.array([r.value[0] for r in results if r.stream == name])
        assert set(np.diff(shown) % 600) == {1}  # not one picture is missing
