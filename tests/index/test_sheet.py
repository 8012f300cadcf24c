"""Contact sheets: the frame in the middle of each span is on them, and a source that is gone is said."""

import base64
import re

import cv2
import numpy as np
import pytest
from tests.cli.conftest import write_clip

from hyperframes.errors import SinkError
from hyperframes.index import Hit
from hyperframes.index.sheet import write_sheet

LEVELS = [40, 120, 200]
SHOWN = [(level - 16) * 255 / 219 for level in LEVELS]  # luma of limited range


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    """Three spans of one second, each of one grey."""
    frames = np.concatenate([np.full((25, 48, 64), level, np.uint8) for level in LEVELS])
    film = write_clip(tmp_path_factory.mktemp("film") / "<film>.mp4", frames)
    return [Hit(str(film), float(k), k + 1.0, 1 - k / 10, str(k)) for k in (2, 0, 1)]


def test_the_picture_shows_the_middle_of_each_span(hits, tmp_path):
    assert write_sheet(hits, tmp_path / "sheet.png") == []
    sheet = cv2.cvtColor(cv2.imread(str(tmp_path / "sheet.png")), cv2.COLOR_BGR2RGB)
    for number, hit in enumerate(hits):
        pixel = sheet[40 + 12 + 90, 12 + number * 332 + 160].astype(int)
        assert np.abs(pixel - SHOWN[int(hit.start_seconds)]).max() < 5


def test_the_page_holds_its_pictures_and_escapes_names(hits, tmp_path):
    assert write_sheet(hits, tmp_path / "sheet.html", title="a <b>") == []
    page = (tmp_path / "sheet.html").read_text()
    assert "a &lt;b&gt;" in page
    assert "<film>" not in page
    first = re.search(r"base64,([^\"]+)", page)[1]
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(first), np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    assert np.abs(picture[90, 160].astype(int) - SHOWN[2]).max() < 5
    assert "2.00 to 3.00 s, score 0.800" in page
    assert "3 spans, most alike first; the score is a cosine" in page
    assert "prefers-color-scheme:dark" in page


def test_a_picture_has_its_title_and_says_when_nothing_was_found(hits, tmp_path):
    write_sheet(hits, tmp_path / "named.png", title="like film.mp4@2")
    write_sheet([], tmp_path / "none.png", title="like film.mp4@2")
    named, none = (cv2.imread(str(tmp_path / name)) for name in ("named.png", "none.png"))
    assert named[:40].min() < 100  # ink
    assert (named[:40, : none.shape[1]] == none[:40]).all()
    assert none[52:].min() < 100


def test_of_a_copy_the_instant_is_shown(hits, tmp_path):
    copy = hits[0]._replace(start_seconds=0.0, stop_seconds=3.0, at_seconds=0.5)
    write_sheet([copy], tmp_path / "sheet.png")
    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert np.abs(sheet[40 + 12 + 90, 12 + 160].astype(int) - SHOWN[0]).max() < 5
    write_sheet([copy], tmp_path / "sheet.html")
    assert "the same or a copy, at 0.5 s, score 0.800" in (tmp_path / "sheet.html").read_text()


def test_a_source_that_is_gone_is_grey_and_told(hits, tmp_path):
    gone = Hit(str(tmp_path / "gone.mp4"), 0.0, 1.0, 0.5, "x")
    (warning,) = write_sheet([gone, hits[0]], tmp_path / "sheet.png")
    assert "no picture of" in warning
    assert (cv2.imread(str(tmp_path / "sheet.png"))[140, 100] == 96).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sheet.png"]


def test_other_suffixes_and_missing_folders_are_refused(tmp_path):
    with pytest.raises(SinkError, match=r"ending in \.html or \.png: got 'a.gif'"):
        write_sheet([], tmp_path / "a.gif")
    with pytest.raises(SinkError, match="does not exist"):
        write_sheet([], tmp_path / "none" / "a.png")
