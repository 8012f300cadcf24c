"""Images as frames: order, depth, colour, and files that are not what they seem."""

import cv2
import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.sources import open_source
from hyperframes.sources.images import open_images

RANDOM = np.random.default_rng(5)


def write(path, picture):
    order = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}
    channels = picture.shape[2] if picture.ndim == 3 else 1
    assert cv2.imwrite(str(path), cv2.cvtColor(picture, order[channels]) if channels > 1 else picture)


def pictures(count, shape=(4, 6, 3), dtype=np.uint8):
    return [RANDOM.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True) for _ in range(count)]


@pytest.mark.parametrize(
    ("shape", "dtype", "pixel_format"),
    [
        ((4, 6), np.uint8, "gray"),
        ((4, 6), np.uint16, "gray16le"),
        ((4, 6, 3), np.uint8, "rgb24"),
        ((4, 6, 4), np.uint8, "rgba"),
        ((4, 6, 3), np.uint16, "rgb48le"),
        ((4, 6, 4), np.uint16, "rgba64le"),
    ],
)
def test_png_keeps_depth_channels_and_rgb_order(tmp_path, shape, dtype, pixel_format):
    taken = pictures(3, shape, dtype)
    for number, picture in enumerate(taken):
        write(tmp_path / f"{number}.png", picture)
    with open_source(tmp_path) as source:
        assert source.spec.pixel_format == pixel_format
        np.testing.assert_array_equal(source.frames([0, 1, 2]).data, taken)


def test_files_come_in_natural_order(tmp_path):
    taken = pictures(12)
    for number, picture in enumerate(taken):
        write(tmp_path / f"shot{number}.png", picture)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    for where in (tmp_path, tmp_path / "*.png", tmp_path / "shot%d.png"):
        with open_source(where) as source:
            assert [file.name for file in source.files] == [f"shot{n}.png" for n in range(12)]
            np.testing.assert_array_equal(np.stack([frame.data for frame in source.read()]), taken)


def test_a_numbered_pattern_takes_only_its_own_files(tmp_path):
    for name in ("left_0001.png", "left_0002.png", "left_1.png", "right_0001.png"):
        write(tmp_path / name, pictures(1)[0])
    assert [file.name for file in open_images(tmp_path / "left_%04d.png").files] == ["left_0001.png", "left_0002.png"]


def test_one_image_is_a_stream_of_one_frame(tmp_path):
    (picture,) = pictures(1)
    write(tmp_path / "x.png", picture)
    with open_source(tmp_path / "x.png", rate=30) as source:
        assert source.count() == 1
        assert source.spec.rate == 30


def test_threads_do_not_change_what_is_read(tmp_path):
    for number, picture in enumerate(pictures(9)):
        write(tmp_path / f"{number}.png", picture)
    one, four = (np.stack([f.data for f in open_images(tmp_path, threads=n).read()]) for n in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_photographs_are_turned_upright(tmp_path):
    (picture,) = pictures(1, (4, 6, 3))
    data = cv2.imencode(".jpg", picture)[1].tobytes()
    orientation = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    turned = data[:2] + b"\xff\xe1" + (len(orientation) + 2).to_bytes(2, "big") + orientation + data[2:]
    (tmp_path / "x.jpg").write_bytes(turned)
    with open_source(tmp_path / "x.jpg") as source:
        assert (source.spec.height, source.spec.width) == (6, 4)


@pytest.mark.parametrize(
    ("other", "got"),
    [
        (pictures(1, (4, 7, 3))[0], r"\(4, 7, 3\) of uint8"),
        (pictures(1, (4, 6))[0], r"\(4, 6\) of uint8"),
        (pictures(1, (4, 6, 3), np.uint16)[0], r"\(4, 6, 3\) of uint16"),
    ],
)
def test_images_that_are_not_alike_are_refused_by_name(tmp_path, other, got):
    write(tmp_path / "a.png", pictures(1)[0])
    write(tmp_path / "b.png", other)
    message = rf"must be alike: expected \(4, 6, 3\) of uint8 as in 'a.png', got {got} in 'b.png'"
    with open_source(tmp_path) as source, pytest.raises(SourceError, match=message) as caught:
        list(source.read())
    assert "one size" in caught.value.hint


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_an_image_that_is_cut_off_is_an_error_not_half_a_picture(tmp_path, suffix):
    write(tmp_path / f"x{suffix}", pictures(1, (40, 60, 3))[0])
    data = (tmp_path / f"x{suffix}").read_bytes()
    for length in (len(data) // 2, len(data) - 12 if suffix == ".png" else len(data) - 2):
        (tmp_path / f"x{suffix}").write_bytes(data[:length])
        with pytest.raises(SourceError, match="is cut off: its end is missing"):
            open_source(tmp_path / f"x{suffix}")


@pytest.mark.parametrize("data", [b"", b"this is text"])
def test_what_is_no_image_is_refused(tmp_path, data):
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(SourceError, match=r"x\.png is no image that can be decoded"):
        open_source(tmp_path / "x.png")


def test_an_image_that_goes_away_is_an_error(tmp_path):
    for number, picture in enumerate(pictures(3)):
        write(tmp_path / f"{number}.png", picture)
    with open_source(tmp_path) as source:
        (tmp_path / "2.png").unlink()
        with pytest.raises(SourceError, match=r"cannot open .*2\.png: No such file"):
            list(source.read())


@pytest.mark.parametrize("where", [".", "*.png", "%04d.png"])
def test_no_images_is_an_error_that_says_what_is_expected(tmp_path, where):
    with pytest.raises(SourceError, match=r"no images in .*: expected files ending in \.png, \.jpg") as caught:
        open_source(f"{tmp_path}/{where}")
    assert "'folder/*.png'" in caught.value.hint
