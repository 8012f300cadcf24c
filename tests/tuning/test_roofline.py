"""Operators against a copy: what is counted, not how fast this machine is."""

import json

import pytest

from hyperframes import registry
from hyperframes.tuning import copy_limit, roofline

NO_PICTURES = {"event_denoise", "onnx", "overlay", "time_surface", "voxel_grid", "anchors", "patchwise"}
NO_PICTURES |= {"mch", "sch", "edh", "hybrid", "region_net", "refine_anchors", "project_task"}
"""Operators that need events, a model, records, or more than one kind of input."""
SMALL = {"height": 36, "width": 48, "repetitions": 1, "frames": 6, "copy_bytes": 1 << 16}


@pytest.mark.requirement("A81")
def test_a_copy_counts_what_is_read_and_what_is_written():
    limit = copy_limit(2, num_bytes=1 << 16, repetitions=3)
    assert limit.threads == 2
    assert limit.bytes_per_second > 0
    assert limit.deviation >= 0


@pytest.mark.parametrize(
    ("text", "bytes_per_frame"),
    [
        ("temporal_mean:radius=2", 2 * 36 * 48 * 1.5),  # read once, written once
        ("sobel", None),
        ("measure", 36 * 48 * 1.5),  # records: no frame is written
        ("crop:width=24,height=18", 36 * 48 * 1.5 * 1.25),
        ("every:n=2", 36 * 48 * 1.5 * 1.5),
        ("background", None),
    ],
)
def test_bytes_are_counted_once_in_and_once_out(text, bytes_per_frame):
    found = roofline([text], threads=[1, 2], **SMALL)
    assert [rate.threads for rate in found.operators] == [1, 2]
    for rate in found.operators:
        assert rate.failed == ""
        assert rate.frames_per_second > 0
        assert rate.share > 0
        assert rate.bytes_per_second == pytest.approx(rate.bytes_per_frame * rate.frames_per_second)
        if bytes_per_frame is not None:
            assert rate.bytes_per_frame == bytes_per_frame


def test_an_operator_that_refuses_such_frames_is_listed_with_the_reason():
    (rate,) = roofline(["crop:width=4000,height=18"], threads=[1], **SMALL).operators
    assert "crop" in rate.failed
    assert rate.frames_per_second == 0


@pytest.mark.requirement("A81")
@pytest.mark.slow  # compiles, where nothing is cached yet
def test_every_built_in_operator_is_measured(monkeypatch):
    from hyperframes.tuning.roofline import EXAMPLES

    monkeypatch.setitem(EXAMPLES, "crop", "crop:width=24,height=18")
    told = []
    found = roofline(threads=[1], told=told.append, **SMALL)
    names = [rate.operator.partition(":")[0] for rate in found.operators]
    assert names == [name for name in registry.operators if name in names]
    assert set(registry.operators) - set(names) <= NO_PICTURES
    assert {rate.operator: rate.failed for rate in found.operators if rate.failed} == {}
    assert len(told) == 1 + len(found.operators)
    json.dumps(found.to_json(), allow_nan=False)
