"""JPEG pictures in packets: what settings and tables they bring along."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.media.jpeg import jpeg_form


def _segment(marker, body):
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2) + body


def _huffman(name, *codes):
    return bytes([name]) + bytes([len(codes)] + [0] * 15) + bytes(codes)


def _jpeg(*segments, height=32, frame=0xC0, scanned=1):
    start = _segment(frame, bytes([8]) + height.to_bytes(2) + (48).to_bytes(2) + bytes([1, 1, 0x11, 0]))
    scan = _segment(0xDA, bytes([scanned, 1, 0, 0, 63, 0]))
    return b"\xff\xd8" + b"".join(segments) + start + scan + b"\x12\x34\xff\xd9"


def test_the_form_of_a_picture_names_its_tables_and_not_what_is_in_them():
    one = _jpeg(_segment(0xDB, bytes([0, *range(64)])), _segment(0xC4, _huffman(0, 1, 2) + _huffman(16, 3)))
    two = _jpeg(_segment(0xDB, bytes([0, *range(1, 65)])), _segment(0xC4, _huffman(0, 9) + _huffman(16, 8, 7)))
    assert jpeg_form(one, 32) == jpeg_form(two, 32) is not None
    other_name = _jpeg(_segment(0xDB, bytes([1, *range(64)])), _segment(0xC4, _huffman(0, 1, 2) + _huffman(16, 3)))
    wider = _jpeg(_segment(0xDB, bytes([16, *range(64), *range(64)])), _segment(0xC4, _huffman(0, 1) + _huffman(16, 3)))
    assert len({jpeg_form(data, 32) for data in (one, other_name, wider, _jpeg())}) == 4


def test_comments_and_aspect_are_part_of_the_form_and_photographic_notes_are_not():
    assert jpeg_form(_jpeg(_segment(0xFE, b"CS=ITU601")), 32) != jpeg_form(_jpeg(_segment(0xFE, b"AVID")), 32)
    assert jpeg_form(_jpeg(_segment(0xE0, b"JFIF\x00\x01")), 32) != jpeg_form(
        _jpeg(_segment(0xE0, b"JFIF\x00\x02")), 32
    )
    notes = [_jpeg(_segment(0xE1, b"Exif\x00\x00II" + taken), _segment(0xDD, taken)) for taken in (b"10:00", b"10:01")]
    assert jpeg_form(notes[0], 32) == jpeg_form(notes[1], 32) is not None
    assert jpeg_form(b"\xff\xd8\xff" + _jpeg()[2:], 32) == jpeg_form(_jpeg(), 32)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        b"RIFF" + _jpeg(),
        _jpeg(height=16),
        _jpeg(frame=0xC2),
        _jpeg(scanned=3),
        _jpeg(_segment(0xDB, bytes(40))),
        _jpeg(_segment(0xC4, _huffman(0, 1, 2)[:-1])),
        _jpeg(_segment(0xC8, b"unknown")),
        _jpeg()[:12],
    ],
    ids=["nothing", "start", "something else", "field", "progressive", "scans", "quantiser", "codes", "marker", "cut"],
)
def test_nothing_is_said_of_other_pictures(data):
    assert jpeg_form(data, 32) is None


@given(st.binary(max_size=60))
def test_any_bytes_have_a_form_or_none(data):
    for start in (b"", b"\xff\xd8", b"\xff\xd8\xff\xc0"):
        jpeg_form(start + data, 32)
