"""The descriptor: what it refuses, what it says of itself, and that nothing is lost on the way to Arrow and back."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.semantic.descriptors import descriptors, row

import hyperframes as hf
from hyperframes.errors import FrameError, SinkError, SourceError
from hyperframes.semantic import (
    FIXED_KERNELS,
    Anchor,
    Descriptor,
    Looks,
    Trajectory,
    attend,
    load,
    save,
    schema,
    to_table,
)


def made(**fields):
    return Descriptor(**{"source": "a.mp4", "content_hash": "c0ffee", "core": (0, 50), "seconds": (0.0, 2.0)} | fields)


# Arrow and files


@pytest.mark.requirement("C107")
@given(st.lists(descriptors(), max_size=4))
def test_arrow_holds_what_rows_written_by_hand_hold(many):
    table = to_table(many)
    table.validate(full=True)
    assert table.equals(pa.Table.from_pylist([row(d) for d in many], schema()))


@pytest.mark.requirement("C107")
@given(st.lists(descriptors(), max_size=4), st.sampled_from([".arrow", ".parquet"]))
def test_nothing_is_lost_on_the_way_to_a_file_and_back(tmp_path_factory, many, suffix):
    path = tmp_path_factory.mktemp("saved") / f"many{suffix}"
    assert Descriptor.from_arrow(to_table(many)) == many
    save(many, path)
    assert load(path) == many
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@given(st.lists(descriptors(), min_size=2, max_size=4))
def test_slices_and_further_columns_of_a_table_are_read(many):
    table = to_table(many).append_column("score", pa.array([0.5] * len(many)))
    assert Descriptor.from_arrow(table.slice(1)) == many[1:]
    assert Descriptor.from_arrow(table.to_batches()[0]) == many


def test_a_descriptor_is_saved_alone_and_read_alone(tmp_path):
    one = made(anchors=((0.5, 1.0),))
    one.save(tmp_path / "one.arrow")
    assert Descriptor.load(tmp_path / "one.arrow") == one
    save([one, one], tmp_path / "two.arrow")
    with pytest.raises(SourceError, match="holds 2 descriptors: expected one"):
        Descriptor.load(tmp_path / "two.arrow")


def test_a_file_that_is_something_else_is_named(tmp_path):
    path = tmp_path / "no.arrow"
    with pytest.raises(SourceError, match=re.escape(f"cannot read descriptors from {path}")):
        load(path)
    path.write_bytes(b"no Arrow")
    with pytest.raises(SourceError, match="cannot read descriptors"):
        load(path)
    with pytest.raises(SourceError, match=r"files ending in \.arrow or \.parquet: got 'a.pkl'"):
        load(tmp_path / "a.pkl")
    with pytest.raises(SinkError, match=r"files ending in \.arrow or \.parquet: got 'a.pkl'"):
        made().save(tmp_path / "a.pkl")
    with pytest.raises(SinkError, match="cannot write"):
        made().save(tmp_path / "missing" / "a.arrow")


def test_tables_of_another_form_are_refused_by_column():
    table = made().to_arrow()
    with pytest.raises(FrameError, match=r"column 'anchors' of descriptors: expected list.*, got no such column"):
        Descriptor.from_arrow(table.drop_columns(["anchors"]))
    changed = table.set_column(0, "descriptor_id", pa.array([3]))
    with pytest.raises(FrameError, match="column 'descriptor_id' of descriptors: expected string, got int64"):
        Descriptor.from_arrow(changed)


def test_another_schema_version_is_refused():
    table = made().to_arrow()
    newer = table.set_column(1, table.schema.field(1), pa.array([3], pa.int32()))
    with pytest.raises(FrameError, match="schema version 3 cannot be read here: expected 2") as caught:
        Descriptor.from_arrow(newer)
    assert "Describe the source again" in caught.value.hint


# What it refuses


@pytest.mark.requirement("C26")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"core": (5, 3)}, "core of a descriptor: expected (start, stop) with start not after stop"),
        ({"core": (-1, 3)}, "core of a descriptor"),
        ({"seconds": (0.0, float("nan"))}, "seconds of a descriptor"),
        ({"seconds": 3}, "seconds of a descriptor: expected (start, stop)"),
        ({"statistics": "none"}, "statistics of a descriptor: expected one of causal, two-pass"),
        ({"anchors": ((1.0, 0.5), (1.0, 0.2))}, "anchors of a descriptor: expected ascending times"),
        ({"anchors": ((1.0, 1.5),)}, "an anchor of a descriptor: expected finite seconds, a weight in [0, 1]"),
        ({"anchors": (Anchor(1.0, 0.5, "sneeze"),)}, "a known kind"),
        ({"anchors": (Anchor(1.0, 0.5, "cut", float("inf")),)}, "expected a finite place or None"),
        ({"trajectories": ((0.0, 1.0, np.zeros((2, 3), "f4")),)}, "a trajectory of a descriptor: expected (2, 4)"),
        ({"regions": {"fall": np.zeros((64, 63), "u1")}}, "regions['fall'] of a descriptor: expected (64, 64) uint8"),
        ({"regions": {"fall": np.zeros((64, 64), "f4")}}, "got '(64, 64) float32'"),
        ({"spatial_kernels": np.zeros((3, 3), "f4")}, "spatial_kernels of a descriptor"),
        ({"semantic_features": np.zeros(511, "f4")}, "semantic_features of a descriptor: expected (512,) float32"),
        ({"semantic_features": np.ones(512, "f4")}, "expected zeros, as the part is not valid"),
        ({"semantic_features": np.full(512, np.nan, "f4"), "feature_parts": (True,) * 4}, "expected finite numbers"),
        (
            {"looks": Looks(np.zeros(2), np.zeros((2, 63), "f2"))},
            "looks.seconds of a descriptor: expected finite times",
        ),
        ({"looks": Looks(np.zeros(1), np.zeros((1, 64), "f2"))}, "looks.values of a descriptor: expected (1, 63)"),
        ({"looks": 3}, "looks of a descriptor: expected times and values, got 3"),
        ({"feature_parts": (True,)}, "feature_parts of a descriptor: expected 4 values"),
        ({"text_vector": np.zeros(384, "f2")}, "text_model of a descriptor: expected the encoder's id"),
        ({"text_vector": np.zeros(384, "f4"), "text_model": "m"}, "text_vector of a descriptor: expected (384,)"),
        ({"lag_confidence": 0.5}, "lag_confidence of a descriptor"),
        ({"lag_seconds": float("inf")}, "lag_seconds of a descriptor"),
        ({"models": {"detector": 3}}, "models of a descriptor: expected a mapping of text to text"),
    ],
)
def test_what_does_not_belong_in_a_descriptor_is_refused_by_name(fields, message):
    with pytest.raises(FrameError, match=re.escape(message)):
        made(**fields)


# What it says of itself


@pytest.mark.requirement("C23")
@pytest.mark.requirement("X15")
def test_anchors_are_pairs_of_seconds_and_weight_that_know_their_kind_and_place():
    one = made(anchors=((0.5, 0.25), Anchor(1.0, 1.0, "cut"), Anchor(1.5, 0.5, "start", 0.1, 0.9)))
    assert one.temporal_anchors == [(0.5, 0.25), (1.0, 1.0), (1.5, 0.5)]
    assert [anchor.kind for anchor in one.anchors] == ["motion", "cut", "start"]


@pytest.mark.requirement("C18")
@pytest.mark.requirement("C25")
def test_a_task_without_a_map_of_its_own_shares_the_default_one():
    fall, shared = np.full((64, 64), 255, np.uint8), np.full((64, 64), 51, np.uint8)
    one = made(regions={"fall": fall, "default": shared})
    assert (one.confidence("fall") == 1).all()
    np.testing.assert_allclose(one.confidence("theft"), 0.2, rtol=1e-6)
    assert one.region_confidence.dtype == np.float32
    assert (made().region_confidence == 0).all()


@pytest.mark.requirement("C14")
@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 1))
def test_a_trajectory_is_a_cubic_in_each_coordinate(a, b, u):
    path = Trajectory(0.0, 1.0, np.array([[a, b, 1, 2], [0, 1, a, b]], np.float32))
    x, y = ([float(c) for c in line] for line in path.coefficients)
    expected = [sum(c * u**k for k, c in enumerate(line)) for line in (x, y)]
    np.testing.assert_allclose(path.at(u), expected, atol=1e-6)
    assert path.at(np.linspace(0, 1, 5)).shape == (5, 2)


@pytest.mark.requirement("C4")
def test_it_keeps_no_pixels_and_no_credentials():
    one = made(source="rtsp://user:word@host/live")
    assert one.source == "rtsp://***@host/live"
    assert one.to_arrow().nbytes < 8192


def test_its_id_is_that_of_what_was_described_and_how():
    one = made()
    assert re.fullmatch("[0-9a-f]{32}", one.descriptor_id)
    assert made(source="copy.mp4", hyperframe="7", static=True).descriptor_id == one.descriptor_id
    others = [{"content_hash": "d"}, {"core": (0, 51)}, {"stream": "1"}, {"parameters": "p"}, {"models": {"m": "1"}}]
    ids = {made(**fields).descriptor_id for fields in [*others, {"statistics": "two-pass"}, {}]}
    assert len(ids) == len(others) + 2


def test_arrays_cannot_be_changed_and_callers_keep_theirs():
    features = np.zeros(512, np.float32)
    one = made(semantic_features=features)
    features[:] = 1
    assert not one.semantic_features.any()
    with pytest.raises(ValueError, match="read-only"):
        one.semantic_features[0] = 1


@pytest.mark.requirement("C127")
def test_pooling_weighs_frames_by_their_anchors_and_not_at_all_where_nothing_happens():
    values, seconds = np.arange(8.0).reshape(4, 2), np.array([0.0, 0.5, 1.0, 1.5])
    pooled = made(anchors=((0.4, 0.25), (1.6, 0.75))).pool(values, seconds)
    np.testing.assert_allclose(pooled, 0.25 * values[1] + 0.75 * values[3])
    for still in (made(), made(anchors=((0.4, 0.0),)), made(anchors=((0.4, 0.01),), static=True)):
        np.testing.assert_allclose(still.pool(values, seconds), values.mean(axis=0))
    with pytest.raises(FrameError, match="values of a descriptor: expected 4 and at least 1, one a time, got 3"):
        made().pool(values[:3], seconds)


def test_its_text_form_says_where_and_what():
    one = made(anchors=((0.5, 0.25),), cut=True)
    assert repr(one) == "Descriptor('a.mp4' frames 0:50, 0.000..2.000 s, 1 anchors, cut)"


def test_a_notebook_shows_its_maps_as_pictures_and_escapes_names():
    page = made(source="<b>.mp4", regions={"<i>": np.eye(64, dtype=np.uint8)}, anchors=((0.5, 0.25),))._repr_html_()
    assert page.count("data:image/png;base64,") == 2 + 4
    assert "0.500 s, weight 0.25, motion" in page
    assert "&lt;b&gt;.mp4" in page
    assert "<i>" not in page
    assert "paths between anchors" not in page


def test_a_notebook_shows_paths_between_anchors():
    line = np.array([[0.25, 0.5, 0, 0], [0.75, 0, 0, 0]], np.float32)
    page = made(anchors=((0.0, 1.0), (1.0, 1.0)), trajectories=(Trajectory(0.0, 1.0, line),))._repr_html_()
    assert "1 paths between anchors" in page
    assert '<polyline points="0.250,0.750 ' in page
    assert ' 0.750,0.750" fill="none" stroke="hsl(220 75% 45%)"' in page


def test_it_is_one_of_the_public_names():
    assert hf.Descriptor is Descriptor


# The kernels


@pytest.mark.requirement("C24")
@given(st.integers(0, 2**32 - 1), st.sampled_from([(5, 7), (6, 4, 3)]))
def test_detail_is_kept_by_confidence_as_a_slow_loop_keeps_it(seed, shape):
    random = np.random.default_rng(seed)
    picture = random.integers(0, 256, shape, np.uint8)
    for level in (0.0, 0.2, 0.5, 0.9, 1.0):
        got = attend(picture, np.full((64, 64), level, np.float32))
        assert np.abs(got - _slowly_attended(picture, level).reshape(shape)).max() <= 0.5 + 1e-4


def _slowly_attended(picture, level):
    kernels = np.zeros((3, 3, 3))
    kernels[0] = np.outer([1, 2, 1], [1, 2, 1]) / 16
    kernels[1, 1, 1] = 1
    kernels[2] = 2 * kernels[1] - kernels[0]
    shares = [max(0, 1 - 2 * level), 1 - abs(2 * level - 1), max(0, 2 * level - 1)]
    mixed = sum(share * kernel for share, kernel in zip(shares, kernels, strict=True))
    height, width = picture.shape[:2]
    channels = picture.reshape(height, width, -1)
    out = np.zeros(channels.shape)
    for y, x in np.ndindex(height, width):
        for dy, dx in np.ndindex(3, 3):
            at = channels[min(max(y + dy - 1, 0), height - 1), min(max(x + dx - 1, 0), width - 1)]
            out[y, x] += mixed[dy, dx] * at
    return np.clip(out, 0, 255)


def test_the_fixed_kernels_keep_the_mean():
    assert FIXED_KERNELS.shape == (3, 3, 3, 3)
    np.testing.assert_allclose(FIXED_KERNELS.sum(axis=(2, 3)), 1)
    assert not FIXED_KERNELS.flags.writeable
    assert (attend(np.full((4, 4), 77, np.uint8), np.ones((64, 64), np.float32)) == 77).all()


def test_other_pictures_are_refused():
    with pytest.raises(FrameError, match=r"grey \(H, W\) or RGB \(H, W, 3\) of uint8, got \(4, 4\) float32"):
        attend(np.zeros((4, 4), np.float32), np.ones((64, 64), np.float32))


@pytest.mark.requirement("C2")
def test_its_page_shows_sixteen_cells_with_three_layers_each():
    features = np.zeros(512, np.float32)
    features[80 + 16 * 2 + 4 * 1 + 3] = 0.5  # a large box whose centre is in the second row and the last column
    page = made(semantic_features=features, feature_parts=(True, False, False, False))._repr_html_()
    shown = page.split('aria-label="where boxes are')[1].split("</svg>")[0]
    assert shown.count('fill="none"') == 48
    filled = [rect for rect in shown.split("<rect") if 'width="14.0"' in rect]
    assert len(filled) == 1
    assert 'x="98.0"' in filled[0]
    assert 'fill="#ea580c"' in filled[0]
    assert "where boxes are" not in made()._repr_html_()
