"""Recordings of event cameras: decoded as slow readers of the published bit layouts decode them, and written back."""

import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import SinkError, SourceError
from hyperframes.frames import Events
from hyperframes.media.event_files import PIECE_EVENTS, create_events_file, open_events_file

SENSOR = (240, 320)
KINDS = [(".raw", "evt2"), (".raw", "evt2.1"), (".raw", "evt3"), (".dat", ""), (".h5", ""), (".npz", ""), (".txt", ""),
         (".aedat4", "")]  # fmt: skip


def read(path, **options):
    file = open_events_file(path, **options)
    return Events.concatenate(list(file.pieces())), file


def write(path, events, form="evt3", sensor=SENSOR, piece=7):
    with path.open("w+b") as file:
        writer = create_events_file(path.suffix, path, file, sensor, form)
        for start in range(0, len(events), piece):
            writer.write(events[start : start + piece])
        writer.finish()


def assert_equal(got, wanted):
    for name in "txyp":
        np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name), err_msg=name)


def drawn(seed, count=60, longest=2_000_000):
    random = np.random.default_rng(seed)
    steps = random.choice([0, 1, 30, 5_000, longest], count, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    t = 123_456 + np.cumsum(steps)
    t[1::9] -= np.minimum(steps[1::9], 3)  # sensors step back a little
    return Events.of(t, random.integers(0, 320, count), random.integers(0, 240, count), random.integers(0, 2, count))


# Slow readers ---------------------------------------------------------------------------------------------------------


def slow_evt3(words):
    """Decode EVT 3 word by word after its published layout, with none of the package's code."""
    rows, high, low, y, base, polarity, wraps = [], None, 0, 0, 0, 0, 0
    for word in words:
        kind, value = word >> 12, word & 0xFFF
        if kind == 0x0:
            y = value & 0x7FF
        elif kind == 0x2 and high is not None:
            rows.append((wraps * (1 << 24) + high * 4096 + low, value & 0x7FF, y, value >> 11))
        elif kind == 0x3:
            base, polarity = value & 0x7FF, value >> 11
        elif kind in {0x4, 0x5}:
            valid = [bit for bit in range(12 if kind == 0x4 else 8) if value >> bit & 1 and high is not None]
            rows += [(wraps * (1 << 24) + high * 4096 + low, base + bit, y, polarity) for bit in valid]
            base += 12 if kind == 0x4 else 8
        elif kind == 0x6:
            low = value
        elif kind == 0x8:
            if high is not None and high - value > 2048:
                wraps += 1
            high = value
    return rows


def slow_evt2(words):
    rows, high = [], None
    for word in words:
        kind = word >> 28
        if kind == 8:
            high = word & 0xFFFFFFF
        elif kind in {0, 1} and high is not None:
            rows.append(((high << 6) | (word >> 22 & 63), word >> 11 & 0x7FF, word & 0x7FF, kind))
    return rows


def body(path):
    data = path.read_bytes()
    while data.startswith(b"%"):
        data = data.partition(b"\n")[2]
    return data


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "letter", "slow", "count"),
    [
        ("evt3_gen41_1280x720.raw", "H", slow_evt3, 219_596),
        ("evt2_gen3_640x480.raw", "I", slow_evt2, 539_481),
    ],
)
def test_real_recordings_decode_as_the_published_layout_says(media, name, letter, slow, count):
    data = body(media / "events" / name)
    words = struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data)
    rows = np.array(slow(words))
    events, file = read(media / "events" / name)
    assert len(events) == len(rows) == count
    np.testing.assert_array_equal(np.stack([events.t, events.x, events.y, events.p], 1), rows)
    assert file.report == []


@pytest.mark.media
def test_four_files_of_the_same_events_give_the_same_events(media):
    folder = media / "events"
    wanted, file = read(folder / "ncars_car_004397.dat")
    assert (len(wanted), wanted.t[0], wanted.t[-1], file.report) == (4407, 0, 99_937, [])
    for name in ("derived_ncars_car.txt", "derived_ncars_car.npz", "derived_ncars_car.h5"):
        assert_equal(read(folder / name)[0], wanted)


@pytest.mark.media
@pytest.mark.parametrize(
    ("name", "sensor", "count", "first"),
    [
        ("dvxplorer_320x240_short.aedat4", (240, 320), 111_954, 1_605_537_493_718_345),
        ("nmnist_original_sample.bin", (34, 34), 4325, 654),
        ("evt2_gen3_640x480.raw", (480, 640), 539_481, 1_317_888),
        ("evt3_gen41_1280x720.raw", (720, 1280), 219_596, 11_718_656),
    ],
)
def test_recordings_hold_what_is_known_of_them(media, name, sensor, count, first):
    events, file = read(media / "events" / name)
    assert (file.sensor, len(events), int(events.t[0])) == (sensor, count, first)


@pytest.mark.media
def test_the_digits_hold_as_many_events_as_their_table_says(media):
    lines = (media / "events" / "nmnist" / "labels.csv").read_text().split()[1:]
    for line in lines:
        name, _, _, count = line.split(",")
        assert len(read(media / "events" / "nmnist" / name)[0]) == int(count)


# There and back -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "form"), KINDS)
@given(seed=st.integers(0, 10_000), piece=st.integers(1, 70))
def test_what_is_written_comes_back(tmp_path_factory, suffix, form, seed, piece):
    events = drawn(seed)
    path = tmp_path_factory.mktemp("events") / f"x{suffix}"
    write(path, events, form, piece=piece)
    got, file = read(path)
    assert_equal(got, events)
    assert file.report == []
    assert file.sensor in {SENSOR, None}


@pytest.mark.parametrize("form", ["evt2", "evt2.1", "evt3"])
@pytest.mark.parametrize("start", [0, (1 << 24) - 50, (1 << 34) - 50, 1_605_537_493_718_345])
def test_times_are_kept_across_every_wrap(tmp_path, form, start):
    t = start + np.array([0, 10, 60, 70, 5_000_000, 40_000_000, 40_000_001])
    events = Events.of(t, np.arange(7), np.arange(7), np.arange(7) % 2)
    write(tmp_path / "x.raw", events, form)
    assert_equal(read(tmp_path / "x.raw")[0], events)


def test_nmnist_files_are_written_as_they_are_read(tmp_path):
    random = np.random.default_rng(2)
    events = Events.of(np.sort(random.integers(0, 1 << 23, 99)), random.integers(0, 34, 99), random.integers(0, 34, 99),
                       random.integers(0, 2, 99))  # fmt: skip
    write(tmp_path / "x.bin", events)
    assert (tmp_path / "x.bin").stat().st_size == 5 * 99
    assert_equal(read(tmp_path / "x.bin")[0], events)


def test_a_format_that_cannot_hold_them_refuses_events(tmp_path):
    far = Events.of([0], [5000], [0], [1])
    with pytest.raises(SinkError, match="holds columns and rows below 2048"):
        write(tmp_path / "x.raw", far, sensor=None)
    with pytest.raises(SinkError, match="holds sensors of at most 2048 pixels a side, got 4000x3000"):
        write(tmp_path / "y.raw", far, sensor=(3000, 4000))
    with pytest.raises(SinkError, match=r"times from 0 to 8\.39 s"):
        write(tmp_path / "x.bin", Events.of([9_000_000], [1], [1], [1]))


def test_vectors_of_evt3_are_events_of_one_row(tmp_path):
    words = [0x8001, 0x6002, 0x0007, 0x3000 | 1 << 11 | 100, 0x4000 | 0b100000000011, 0x5000 | 0b10000001]
    (tmp_path / "x.raw").write_bytes(b"% evt 3.0\n% geometry 640x480\n" + struct.pack("<6H", *words))
    events, _ = read(tmp_path / "x.raw")
    assert events.x.tolist() == [100, 101, 111, 112, 119]
    assert set(events.y.tolist()) == {7}
    assert set(events.t.tolist()) == {4098}
    assert set(events.p.tolist()) == {1}


# Damage ---------------------------------------------------------------------------------------------------------------


def test_a_time_that_leaps_and_comes_back_is_damage(tmp_path):
    words = [0x8010, 0x6000, 0x0001, 0x2005, 0x8F00, 0x2006, 0x8011, 0x2007]
    (tmp_path / "x.raw").write_bytes(b"% evt 3.0\n" + struct.pack("<8H", *words))
    events, file = read(tmp_path / "x.raw")
    assert events.t.tolist() == [0x10 << 12, 0x10 << 12, 0x11 << 12]
    assert file.report == ["1 times leapt and came back at once: they were taken for damage"]


def test_events_before_the_first_time_are_counted_not_guessed(tmp_path):
    words = [0x2001, 0x2002, 0x8010, 0x2003, 0x1000]
    (tmp_path / "x.raw").write_bytes(b"% evt 3.0\n" + struct.pack("<5H", *words) + b"\x00")
    events, file = read(tmp_path / "x.raw")
    assert events.x.tolist() == [3]
    assert file.report == [
        "the last 1 bytes are no whole word: the file was cut",
        "2 events before the first time were left out",
        "1 words of kinds that the format does not have were left out",
    ]


@pytest.mark.media
@pytest.mark.parametrize("name", ["evt3_gen41_1280x720.raw", "evt2_gen3_640x480.raw", "ncars_car_004397.dat"])
@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_cost_what_they_hit_and_no_times_run_away(media, tmp_path, name, seed):
    data = bytearray((media / "events" / name).read_bytes())
    whole, _ = read(media / "events" / name)
    random = np.random.default_rng(seed)
    for place in random.integers(1000, len(data), 40):
        data[place] ^= 1 << int(random.integers(0, 8))
    path = tmp_path / name
    path.write_bytes(data)
    events, _ = read(path)
    assert abs(len(events) - len(whole)) < 20_000
    if path.suffix == ".raw":
        near = (events.t >= whole.t[0] - 70_000) & (events.t <= whole.t[-1] + 70_000)
        assert near.mean() > 0.999


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x.raw", b"no header at all", "it has no header"),
        ("x.raw", b"% evt 4.0\n....", "its header names no format that is known: got 'EVT4.0'"),
        ("x.dat", b"% Version 2\nxy", "its header ends with 7879, where 00 08 says that CD events follow"),
        ("x.npz", b"PK no zip", "it is no NPZ file of numbers"),
        ("x.h5", b"no HDF5", "it is no HDF5 file, or was cut before its end"),
        ("x.aedat4", b"no AEDAT", "it is no AEDAT 4 file, or was cut"),
        ("x.raw", b"% evt 3.0\n% time_offset_us soon\n% end\n", "its header says time_offset_us 'soon'"),
        ("x.txt", b"Dear reader\nthis is prose\n", "no line of it is an event"),
    ],
)
def test_what_is_no_recording_is_refused_in_a_sentence(tmp_path, name, data, sentence):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match="cannot read events from") as caught:
        read(tmp_path / name)
    assert sentence in str(caught.value)
    assert str(caught.value).count("cannot read events from") == 1


@pytest.mark.parametrize("suffix", [".raw", ".dat", ".h5", ".aedat4", ".npz"])
def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path, suffix):
    with pytest.raises(SourceError, match="No such file"):
        read(tmp_path / f"x{suffix}")


def test_lines_that_are_no_event_are_counted(tmp_path):
    (tmp_path / "x.txt").write_text("320 240\n# a comment\n0.000001 3 4 1\nhello\n0.5 5 6 -1\n7 8 9 0\n")
    events, file = read(tmp_path / "x.txt")
    assert file.sensor == SENSOR
    assert events.t.tolist() == [1, 500_000, 7]
    assert events.p.tolist() == [1, 0, 0]
    assert file.report == ["1 lines that are no event were left out"]


def test_events_beyond_the_sensor_are_counted(tmp_path):
    np.savez(tmp_path / "x.npz", t=[0, 1], x=[5, 500], y=[0, 0], p=[0, 1], sensor=SENSOR)
    events, file = read(tmp_path / "x.npz", sensor=SENSOR)
    assert len(events) == 1
    assert file.report == ["1 events beyond the sensor were left out"]


def arrays(**changed):
    return {"t": [0, 1], "x": [5, 6], "y": [0, 0], "p": [0, 1], **changed}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"t": 5}, r"its t is \(\) of int64"),
        ({"x": [[1, 2], [3, 4]]}, r"its x is \(2, 2\) of int64"),
        ({"t": ["a", "b"]}, "its t is .* expected one number an event"),
        ({"t": [1j, 2j]}, "its t is .* expected one number an event"),
        ({"p": np.array([{}, {}], object)}, "its p is .* expected one number an event"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(tmp_path, changed, sentence):
    np.savez(tmp_path / "x.npz", **arrays(**changed))
    with pytest.raises(SourceError, match=sentence):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "changed",
    [{"t": [0.0, np.nan]}, {"t": [0.0, 1e30]}, {"t": [0, 2**63 - 1]}, {"x": [5.0, np.nan]}, {"x": [5, -1]}, {"y": [0, 70_000]}],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_events_whose_numbers_make_no_sense_are_left_out_and_counted(tmp_path, changed):
    np.savez(tmp_path / "x.npz", **arrays(**changed))
    events, file = read(tmp_path / "x.npz")
    assert (events.t.tolist(), events.x.tolist(), events.y.tolist()) == ([0], [5], [0])
    assert file.report == ["1 events with times or places that are no numbers of theirs were left out"]


def test_packed_arrays_that_are_damaged_or_shorter_than_they_say_are_refused(tmp_path):
    whole = tmp_path / "x.npz"
    np.savez_compressed(whole, **arrays(t=np.arange(5000) ** 2, x=np.zeros(5000), y=np.zeros(5000), p=np.zeros(5000)))
    data = bytearray(whole.read_bytes())
    data[600:640] = bytes(40)
    whole.write_bytes(data)
    with pytest.raises(SourceError, match="no NPZ file of numbers, or damaged"):
        read(whole)
    with zipfile.ZipFile(whole, "w") as archive:
        for name in "txyp":
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(SourceError, match="an array is shorter than it says"):
        read(whole)


def test_a_packed_array_is_unpacked_piece_by_piece(tmp_path):
    count = 5 * PIECE_EVENTS // 2
    columns = {
        "t": np.arange(count) * 3,
        "x": np.arange(count) % 30,
        "y": np.arange(count) % 7,
        "p": np.arange(count) % 2,
    }
    np.savez_compressed(tmp_path / "x.npz", **columns)
    pieces = list(open_events_file(tmp_path / "x.npz").pieces())
    assert [len(piece) for piece in pieces] == [PIECE_EVENTS, PIECE_EVENTS, PIECE_EVENTS // 2]
    for name, column in columns.items():
        np.testing.assert_array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), column)


def test_lines_that_are_too_long_or_numbers_that_are_too_large_are_no_events(tmp_path):
    lines = ["9" * 5000 + " 1 2 1", "9" * 15 + ".0 1 2 1", "0.1 " + "9" * 40 + " 2 1", "1 " * 5000, "0.2 3 4 1"]
    (tmp_path / "x.txt").write_text("\n".join(lines) + "\n")
    events, file = read(tmp_path / "x.txt")
    assert (events.t.tolist(), events.x.tolist()) == ([200_000], [3])
    assert file.report == ["4 lines that are no event were left out"]


@pytest.mark.parametrize("size", [(0, 0), (-3, 4), (10**6, 10**6)])
def test_a_sensor_of_a_size_that_cannot_be_is_not_believed(tmp_path, size):
    np.savez(tmp_path / "x.npz", **arrays(sensor=size))
    assert open_events_file(tmp_path / "x.npz").sensor is None


def test_hdf5_files_of_another_form_are_refused_in_a_sentence(tmp_path):
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["events"] = np.zeros(5)
        file["events"].attrs["height"] = "tall"
        file["events"].attrs["width"] = 5
    with pytest.raises(SourceError, match="/events has no columns t, x, y and p"):
        read(tmp_path / "x.h5")
