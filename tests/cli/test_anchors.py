"""`hyperframes anchors`: instants with weights, as JSON and as a picture."""

import json

import cv2
import numpy as np
import pytest
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, moving, still


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Two scenes that move, then one that does not."""
    frames = footage(moving(1, 40, 2), moving(2, 40, 2), still(3, 40))
    return write_clip(tmp_path_factory.mktemp("film") / "film.mp4", frames)


def printed(call, *arguments):
    outcome = call("anchors", *arguments)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_anchors_are_printed_in_order_of_time_with_weight_and_kind(call, film):
    rows = printed(call, film)
    assert all(row.keys() == {"seconds", "weight", "kind"} for row in rows)
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)
    assert all(0 <= row["weight"] <= 1 for row in rows)
    assert rows == printed(call, film, "--json", "--size", "7")


@pytest.mark.parametrize("more", [[], ["--two-pass"]])
def test_only_cuts_are_printed_on_demand(call, film, more):
    assert [(row["seconds"], row["kind"]) for row in printed(call, film, "--cuts", *more)] == [
        (1.6, "cut"),
        (3.2, "cut"),
    ]


def test_a_range_has_the_anchors_of_these_frames_only(call, film):
    rows = printed(call, film, "--range", "60:120")
    assert [row["seconds"] for row in rows if row["kind"] == "cut"] == [3.2]
    assert min(row["seconds"] for row in rows) >= 2.4


@pytest.mark.slow
def test_the_plot_is_a_picture_and_is_told_beside_the_output(call, film, tmp_path):
    outcome = call("anchors", film, "--plot", "anchors.png")
    assert "plot: anchors.png" in outcome.err
    json.loads(outcome.out)
    picture = cv2.imread(str(tmp_path / "anchors.png"))
    assert picture.shape[1] > 1000
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20


def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_read(call, tmp_path):
    outcome = call("anchors", "missing.mp4", "--plot", "a.jpg")
    assert (outcome.code, outcome.error) == (2, "a plot of anchors is written as .png: got 'a.jpg'")
    outcome = call("anchors", "missing.mp4", "--plot", "none/a.png")
    assert (outcome.code, outcome.error) == (2, "the folder of 'none/a.png' does not exist")


def test_a_missing_source_and_arrays_that_are_no_pictures_are_told_in_a_sentence(call, tmp_path):
    assert call("anchors", "missing.mp4").code == 1
    np.save(tmp_path / "rows.npy", np.zeros((5, 3), np.float32))
    outcome = call("anchors", "rows.npy")
    assert outcome.code == 2
    assert "activity" in outcome.error


def test_models_in_place_of_what_is_built_in_are_used_and_must_be_there(call, tmp_path):
    film = write_clip(tmp_path / "film.mp4", np.full((10, 32, 48), 90, np.uint8))
    for option in ("--flow", "--refiner"):
        outcome = call("anchors", film, option, tmp_path / "none.file")
        assert outcome.code in {1, 2}
        assert "none.file" in outcome.err
