"""What a sweep found, drawn: files that are whole, show every cell, and need nothing from the network."""

import dataclasses
import re
import sys
from xml.etree import ElementTree

import pytest

from hyperframes.drivers.profile import ProfileKey
from hyperframes.errors import MissingExtraError, PipelineError
from hyperframes.packing import Halo
from hyperframes.tuning import Cell, Measurement, Sweep, save_plot
from hyperframes.tuning.plots import page


def in_two_layouts():
    plain = found()
    turned = [dataclasses.replace(cell, layout="NCHW") for cell in plain.cells]
    return dataclasses.replace(plain, cells=(*plain.cells, *turned), unlike=("NCHW",))


def test_every_layout_has_its_curve_and_heat_map(tmp_path):
    text = page(in_two_layouts())
    assert len(re.findall("<svg", text)) == 4
    assert "Size x workers: NHWC<" in text
    assert "Size x workers: NCHW, other results<" in text
    assert len(re.findall('<td class="number">NCHW</td>', text)) == 8
    pytest.importorskip("matplotlib")
    assert save_plot(in_two_layouts(), tmp_path / "tune.png").stat().st_size > 20_000


def found(*, noisy=False):
    cells = []
    for workers in (1, 2):
        for size in (8, 16, 32):
            runs = tuple(Measurement(100, 100 / (rate * workers), 100 / rate) for rate in (size + 90, size + 100))
            cells.append(Cell(size, workers, workers, runs))
        cells.append(Cell(64, workers, workers, invalid="needs 9 GB: 1 GB are allowed"))
    key = ProfileKey("chain", "frame", "a machine, 2 cores", "1")
    return Sweep(key, "clip.mp4", ("mean", "<b>"), "yuv420p 640x360", 345_600, Halo(2, 2), tuple(cells), 1e10, noisy)


@pytest.mark.requirement("A108")
@pytest.mark.requirement("A35")
def test_the_page_shows_curve_heat_map_and_knee_without_network_or_script(tmp_path):
    path = save_plot(found(), tmp_path / "tune.html")
    text = path.read_text()
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "<script" not in text
    assert "prefers-color-scheme:dark" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    curve, heat = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for drawing in (curve, heat):
        ElementTree.fromstring(drawing)
    assert len(re.findall(r"<polyline", curve)) == 2
    assert "knee: size 32" in curve
    assert len(re.findall(r"<g><title>size", heat)) == 8
    assert "needs 9 GB: 1 GB are allowed" in heat


def test_a_busy_machine_gets_a_curve_of_processor_time_too():
    assert len(re.findall("<svg", page(found(noisy=True)))) == 3


@pytest.mark.requirement("A108")
def test_the_picture_is_a_png_with_colours(tmp_path):
    import cv2

    pytest.importorskip("matplotlib")
    picture = cv2.imread(str(save_plot(found(), tmp_path / "tune.png")))
    assert picture.shape[0] > 500
    assert picture.shape[1] > 800
    assert picture.std() > 20
    assert [p.name for p in tmp_path.iterdir()] == ["tune.png"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tune.svg", r"^a plot is written as \.png or \.html: got '.*tune\.svg'$"),
        ("nowhere/tune.html", r"^the folder of '.*tune\.html' does not exist$"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path, name, message):
    with pytest.raises(PipelineError, match=message):
        save_plot(found(), tmp_path / name)


def test_a_picture_without_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"^a plot as \.png needs the 'plot' extra$"):
        save_plot(found(), tmp_path / "tune.png")


def test_a_drawing_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("hyperframes.tuning.plots.page", lambda found: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_plot(found(), tmp_path / "tune.html")
    assert list(tmp_path.iterdir()) == []
