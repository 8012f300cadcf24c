"""Tables of sensor values: columns, times, missing cells, and files that are not what they seem."""

import gzip
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import MissingExtraError, SourceError
from hyperframes.sources import open_source, rows_csv, rows_parquet
from hyperframes.sources.sensor import open_table


def written(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read(path, **options):
    """Return values, pts and the source's spec, read in blocks: nothing is held."""
    with open_table(path, **options) as source:
        source._reader.nbytes = 1 << 40
        assert source.arrays() is None
        frames = list(source.read())
    assert [frame.index for frame in frames] == list(range(len(frames)))
    return [frame.data.tolist() for frame in frames], [frame.pts for frame in frames], source.spec


# Columns -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A2")
def test_rows_are_frames_with_names(tmp_path):
    values, pts, spec = read(written(tmp_path / "x.csv", "ax,ay\n1,2\n3,4.5\n"))
    assert values == [[1, 2], [3, 4.5]]
    assert pts == [0, 1]
    assert (spec.names, spec.shapes, spec.dtype, spec.time_base) == (("ax", "ay"), ((2,),), np.float64, 1)


def test_one_column_gives_frames_of_single_numbers(tmp_path):
    values, _, spec = read(written(tmp_path / "x.csv", "ax,ay\n1,2\n3,4\n"), columns="ay")
    assert (values, spec.shapes, spec.names) == ([2, 4], ((),), ("ay",))


def test_columns_are_taken_in_the_order_asked_for(tmp_path):
    path = written(tmp_path / "x.csv", "a,b,c\n1,2,3\n")
    assert read(path, columns="c,a")[0] == [[3, 1]]
    assert read(path, columns=["b", "c"])[0] == [[2, 3]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "1,2\n3,4\n"),
        ("x.csv", "\ufeffa,b\n1,2\n3,4"),
        ("x.csv", "a,b\r\n1,2\r\n\r\n3,4\r\n"),
        ("x.csv", "# made by hand\n\na;b\n1;2\n# half way\n3;4\n"),
        ("x.csv", '"a","b"\n"1","2"\n"3","4"\n'),
        ("x.csv", "a, b\n 1 , 2\n 3, 4 \n"),
        ("x.tsv", "a\tb\n1\t2\n3\t4\n"),
        ("x.csv.gz", "a,b\n1,2\n3,4\n"),
    ],
)
def test_tables_come_in_many_dialects(tmp_path, name, text):
    assert read(written(tmp_path / name, text))[0] == [[1, 2], [3, 4]]


def test_columns_that_are_no_numbers_are_left_out_with_a_warning(tmp_path):
    with open_source(written(tmp_path / "x.csv", "room,ax,note\nhall,1,\nhall,2,cold\n")) as source:
        assert source.spec.names == ("ax",)
        assert source.warnings == ("columns left out because they hold no numbers: room, note",)


def test_empty_cells_are_nan(tmp_path):
    values, _, _ = read(written(tmp_path / "x.csv", "a,b\n1,\nNA,2\n3,nan\n"))
    np.testing.assert_array_equal(values, [[1, np.nan], [np.nan, 2], [3, np.nan]])


@given(st.lists(st.tuples(st.floats(), st.floats(width=32)), min_size=1, max_size=30))
def test_every_float_reads_back_exactly(tmp_path, rows):
    text = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in rows)
    np.testing.assert_array_equal(read(written(tmp_path / "x.csv", text))[0], rows)


def test_blocks_do_not_show(tmp_path, monkeypatch):
    rows = np.random.default_rng(3).normal(size=(500, 3))
    path = written(tmp_path / "x.csv", "a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist()))
    for block_bytes in (7, 100, 4096):
        monkeypatch.setattr(rows_csv, "_BLOCK_BYTES", max(block_bytes, 40))
        assert read(path)[0] == rows.tolist()
    with open_table(path) as source:
        source._reader.nbytes = 1 << 40
        np.testing.assert_array_equal(source.frames([499, 3, 250]).data, rows[[499, 3, 250]])
        assert [frame.index for frame in source.read(490, 495)] == [490, 491, 492, 493, 494]


def test_a_small_table_is_read_once_and_viewed(tmp_path):
    with open_source(written(tmp_path / "x.csv", "a\n1\n2\n")) as source:
        assert (source.num_frames, source.exact) == (None, False)
        (values,), pts = source.arrays()
        assert (values.tolist(), pts.tolist()) == ([1, 2], [0, 1])
        assert (source.num_frames, source.exact) == (2, True)
        assert source.arrays()[0][0] is values


def test_a_header_without_rows_has_no_frames(tmp_path):
    with open_source(written(tmp_path / "x.csv", "time,a\n")) as source:
        assert source.count() == 0
        assert source.times().tolist() == []
        assert source.arrays()[0][0].shape == (0,)


def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_csv, "_BLOCK_BYTES", 1000)
    path = written(tmp_path / "x.csv", "a,b\n" + "1,2\n" * 5000)
    with open_table(path) as source:
        lengths = {len(values) for _, values, _ in source._reader.blocks(0)}
    assert max(lengths) <= 251


# Time ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "cells", "time_base", "pts"),
    [
        ("seconds", ["0.5", "0.75"], Fraction(1, 10**9), [500_000_000, 750_000_000]),
        ("Time", ["0", "2"], 1, [0, 2]),
        ("timestamp", ["1700000000123", "1700000000223"], Fraction(1, 1000), [1700000000123, 1700000000223]),
        (
            "timestamp",
            ["1700000000123456789", "1700000000123456790"],
            Fraction(1, 10**9),
            [1700000000123456789, 1700000000123456790],
        ),
        ("t_us", ["5", "9"], Fraction(1, 10**6), [5, 9]),
        ("t_ms", ["1.5", "2.25"], Fraction(1, 10**9), [1_500_000, 2_250_000]),
        (
            "timestamp",
            ["1970-01-01T00:00:01.5", "1970-01-01T00:00:02"],
            Fraction(1, 10**9),
            [1_500_000_000, 2_000_000_000],
        ),
        (
            "datetime",
            ["1970-01-01 00:00:01Z", "1970-01-01 00:00:02Z"],
            Fraction(1, 10**9),
            [1_000_000_000, 2_000_000_000],
        ),
        (
            "ts",
            ["1970-01-01T01:00:01+01:00", "1970-01-01T00:00:02+00:00"],
            Fraction(1, 10**9),
            [1_000_000_000, 2_000_000_000],
        ),
    ],
)
def test_times_are_recognised_and_exact(tmp_path, header, cells, time_base, pts):
    text = f"a,{header}\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    values, got, spec = read(written(tmp_path / "x.csv", text))
    assert (values, got, spec.time_base, spec.names) == ([0, 1], pts, time_base, ("a",))


def test_any_column_can_be_the_time_and_a_time_column_a_value(tmp_path):
    path = written(tmp_path / "x.csv", "stamp,t\n10,7\n20,8\n")
    values, pts, spec = read(path, time="stamp", time_unit="ms")
    assert (values, pts, spec.time_base) == ([7, 8], [10, 20], Fraction(1, 1000))
    values, pts, spec = read(path, time=False, rate=100)
    assert (values, pts, spec.time_base, spec.rate) == ([[10, 7], [20, 8]], [0, 1], Fraction(1, 100), 100)
    assert read(path, columns="t")[:2] == ([7, 8], [0, 1])


def test_times_that_fall_are_refused_by_row(tmp_path):
    path = written(tmp_path / "x.csv", "time,a\n0,1\n2,1\n1,1\n")
    message = "times of .* must ascend: row 2 is earlier than the row before"
    with open_table(path) as source, pytest.raises(SourceError, match=message) as caught:
        list(source.read())
    assert "Sort the table" in caught.value.hint


def test_times_that_fall_between_blocks_are_refused_too(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_csv, "_BLOCK_BYTES", 12)
    path = written(tmp_path / "x.csv", "time,a\n10,1\n20,1\n30,1\n15,1\n")
    with pytest.raises(SourceError, match="row 3 is earlier"):
        open_table(path).times()


def test_a_time_that_is_none_is_refused(tmp_path):
    path = written(tmp_path / "x.csv", "time,a\n0.5,1\n,1\n")
    with pytest.raises(SourceError, match=r"column 'time' of .* holds no times near line 2: time nan is no time"):
        open_table(path).times()


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message", "hint"),
    [
        ("", {}, "is empty: expected rows of numbers", ""),
        ("\n\n", {}, "is empty: expected rows of numbers", ""),
        ("a,b\nx,y\n", {}, "has no column of numbers: it has 'a', 'b'", ""),
        ("a,a\n1,2\n", {}, "has two columns named 'a'", ""),
        ("speed,b\n1,2\n", {"columns": "sped"}, "has no column 'sped': it has 'speed', 'b'", "Did you mean 'speed'?"),
        ("a,b\n1,2\n", {"columns": []}, "name at least one column of", ""),
        ("a,b\n1,2\n", {"time": "c"}, "has no column 'c'", ""),
        ("a,b\n1,2\n", {"time": True}, "has no column that is known as time: it has a, b", "time='COLUMN'"),
        ("time,b\n1,2\n", {"time_unit": "h"}, "a time unit is s, ms, us or ns: got 'h'", ""),
        ("a,b\n1,2\n", {"rate": 0}, "a rate is a positive number", ""),
        ("a,b\n1,2\n", {"dtype": "U5"}, "values of .* are numbers: got dtype <U5", ""),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, text, options, message, hint):
    with pytest.raises(SourceError, match=message) as caught:
        open_table(written(tmp_path / "x.csv", text), **options)
    assert hint in (caught.value.hint or "")


def test_a_cell_that_is_no_number_is_named_by_line_and_column(tmp_path):
    path = written(tmp_path / "x.csv", "a,b\n" + "1,2\n" * 300 + "3,oops\n")
    with (
        open_table(path) as source,
        pytest.raises(SourceError, match=r"line 302 of .* in column 'b': got 'oops'") as caught,
    ):
        source.count()
    assert "columns=" in caught.value.hint


def test_a_short_line_is_named(tmp_path):
    path = written(tmp_path / "x.csv", "a,b\n1,2\n3\n")
    with pytest.raises(SourceError, match=r"line 3 of .* is short: expected column 'b', got 1 cells"):
        open_table(path).times()


def test_whole_numbers_cannot_hold_empty_cells(tmp_path):
    path = written(tmp_path / "x.csv", "a,b\n1,2\n3,\n")
    with pytest.raises(SourceError, match=r"line 3 of .* has no number in column 'b': got ''"):
        open_table(path, dtype="i4").times()


def test_binary_files_and_cut_off_archives_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00\x01" * 50)
    with pytest.raises(SourceError, match=r"x\.csv is no text: invalid start byte"):
        open_table(tmp_path / "x.csv")
    whole = gzip.compress(("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(5000))).encode())
    (tmp_path / "x.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"x\.csv\.gz is damaged: Compressed file ended"):
        open_table(tmp_path / "x.csv.gz").count()
    (tmp_path / "y.csv.gz").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(SourceError, match=r"y\.csv\.gz is damaged: Not a gzipped file"):
        open_table(tmp_path / "y.csv.gz")


# Parquet -------------------------------------------------------------------------------------------------------------


def table(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_parquet_rows_keep_a_dtype_that_holds_all_columns(tmp_path):
    path = table(tmp_path / "x.parquet", {"a": np.array([1, 2], "i2"), "b": np.array([3, 4], "f4")})
    values, pts, spec = read(path)
    assert (values, pts, spec.dtype) == ([[1, 3], [2, 4]], [0, 1], np.float32)
    assert read(path, columns="a")[2].dtype == np.int16
    assert read(path, dtype="f8")[2].dtype == np.float64
    with open_source(path) as source:
        assert (source.num_frames, source.exact) == (2, True)


def test_parquet_vectors_are_frames(tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6.0)), 3)
    path = table(tmp_path / "x.parquet", {"v": vectors, "n": [1, 2]})
    values, _, spec = read(path, columns="v")
    assert (values, spec.shapes) == ([[0, 1, 2], [3, 4, 5]], ((3,),))
    with pytest.raises(SourceError, match="holds vectors beside other columns: got v, n") as caught:
        open_table(path)
    assert caught.value.hint == "Choose one of them: columns='v'."


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_timestamps_are_exact(tmp_path, unit):
    stamps = pa.array([1_700_000_000, 1_700_000_007], pa.timestamp(unit))
    _, pts, spec = read(table(tmp_path / "x.parquet", {"time": stamps, "a": [1.0, 2.0]}))
    assert pts == [1_700_000_000, 1_700_000_007]
    assert spec.time_base == Fraction(1, {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit])


def test_parquet_is_read_from_the_row_group_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_parquet, "_BLOCK_ROWS", 3)
    values = np.random.default_rng(4).normal(size=50)
    path = table(tmp_path / "x.parquet", {"a": values}, row_group_size=10)
    with open_table(path) as source:
        source._reader.nbytes = 1 << 40
        firsts = [first for first, _, _ in source._reader.blocks(25)]
        assert firsts[0] == 20
        assert [frame.data.item() for frame in source.read(25, 28)] == values[25:28].tolist()
        assert source.frames([49, 0]).data.tolist() == values[[49, 0]].tolist()


def test_parquet_nulls_are_nan_or_refused(tmp_path):
    path = table(tmp_path / "x.parquet", {"a": pa.array([1, None, 3])})
    np.testing.assert_array_equal(read(path, dtype="f8")[0], [1, np.nan, 3])
    with pytest.raises(
        SourceError, match=r"column 'a' of .* has empty cells from row 0 on, which int64 cannot hold"
    ) as caught:
        open_table(path).times()
    assert "dtype='float64'" in caught.value.hint


def test_parquet_that_is_damaged_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no table at all")
    with pytest.raises(SourceError, match=r"x\.parquet is no Parquet table: "):
        open_table(tmp_path / "x.parquet")
    path = table(tmp_path / "y.parquet", {"a": np.random.default_rng(0).normal(size=5000)}, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"cannot read row 0 of .*y\.parquet: "):
        open_table(path).times()


def test_parquet_columns_that_are_no_numbers_are_refused_by_name(tmp_path):
    path = table(tmp_path / "x.parquet", {"a": ["x"], "b": [1]})
    with pytest.raises(SourceError, match=r"column 'a' of .* holds string, not numbers"):
        open_table(path, columns="a")
    with pytest.raises(SourceError, match=r"column 'a' of .* holds string, not times"):
        open_table(path, time="a")
    assert open_table(path).warnings == ("columns left out because they hold no numbers: a",)


def test_without_pyarrow_parquet_names_the_extra(tmp_path, monkeypatch):
    path = table(tmp_path / "x.parquet", {"a": [1]})
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading \.parquet needs the 'tables' extra"):
        open_table(path)


# Real files ----------------------------------------------------------------------------------------------------------


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize("name", ["20200628_145326_thermal.csv.gz", "20200628_183032_thermal.csv.gz"])
def test_a_real_thermal_recording_gives_every_row_with_its_time(media, name):
    path = media / "actions" / "thermal_falls" / name
    header, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    with open_source(path) as source:
        clip = source.frames(range(source.count()))
    assert header.split(",")[1:] == list(source.spec.names)
    expected = [list(map(float, line.split(",")[1:])) for line in lines]
    np.testing.assert_array_equal(clip.data, expected)
    assert (np.diff(clip.pts) > 0).all()
    assert clip.seconds[-1] - clip.seconds[0] == pytest.approx(
        len(lines) / 8, rel=0.5
    )  # the camera gives about 8 a second
