"""Every built-in source keeps to the interface: the suite for authors, run over one of each kind.

Sources of video and of y4m have suites of their own in tests/sources/test_video*.py: a new kind is added here as one
more subclass of `SourceSuite`, and its name in `COVERED`.
"""

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from hyperframes import registry
from hyperframes.sources import ArraySource, open_source
from hyperframes.testing.sources import SourceSuite

COVERED = {"images", "npy", "memmap", "zarr", "table", "synthetic", "events"}
ELSEWHERE = {"video", "y4m", "rtsp", "rtsps", "udp", "tcp", "v4l2"}

PICTURES = np.random.default_rng(1).integers(0, 256, (7, 5, 6, 3), np.uint8)
ROWS = np.random.default_rng(2).normal(size=(9, 3))


def test_every_built_in_source_is_covered():
    assert set(registry.sources) == COVERED | ELSEWHERE


class TestArray(SourceSuite):
    def opened(self, folder):
        return ArraySource(PICTURES)

    def expected(self):
        return (PICTURES,)


class TestPlanesInMemory(SourceSuite):
    planes = (PICTURES[..., 0].copy(), PICTURES[:, :3, :3, 1].copy(), PICTURES[:, :3, :3, 2].copy())

    def opened(self, folder):
        return ArraySource(self.planes, pixel_format="yuv420p")

    def expected(self):
        return self.planes


class TestNumbersInMemory(SourceSuite):
    def opened(self, folder):
        return ArraySource(ROWS[:, 0])

    def expected(self):
        return (ROWS[:, 0],)


class TestNpy(SourceSuite):
    def opened(self, folder):
        np.save(folder / "x.npy", PICTURES) if not (folder / "x.npy").exists() else None
        return open_source(folder / "x.npy")

    def expected(self):
        return (PICTURES,)


class TestNpyInTheOtherByteOrder(SourceSuite):
    def opened(self, folder):
        np.save(folder / "x.npy", ROWS.astype(">f8")) if not (folder / "x.npy").exists() else None
        return open_source(folder / "x.npy")

    def expected(self):
        return (ROWS,)


class TestRaw(SourceSuite):
    def opened(self, folder):
        if not (folder / "x.raw").exists():
            PICTURES.tofile(folder / "x.raw")
        return open_source(f"{folder}/x.raw?shape=5,6,3&dtype=uint8")

    def expected(self):
        return (PICTURES,)


class TestRawPlanes(SourceSuite):
    def opened(self, folder):
        if not (folder / "x.yuv").exists():
            frames = [plane[t].tobytes() for t in range(7) for plane in self.expected()]
            (folder / "x.yuv").write_bytes(b"".join(frames))
        return open_source(f"{folder}/x.yuv?shape=5,6&pixel_format=yuv420p&rate=30")

    def expected(self):
        return TestPlanesInMemory.planes


class TestZarr(SourceSuite):
    def opened(self, folder):
        if not (folder / "x.zarr").exists():
            stored = zarr.create_array(folder / "x.zarr", shape=PICTURES.shape, chunks=(3, 5, 6, 3), dtype="u1")
            stored[:] = PICTURES
        return open_source(folder / "x.zarr")

    def expected(self):
        return (PICTURES,)


class TestImages(SourceSuite):
    def opened(self, folder):
        for number, picture in enumerate(PICTURES):
            if not (folder / f"{number}.png").exists():
                cv2.imwrite(str(folder / f"{number}.png"), picture[..., ::-1])
        return open_source(folder)

    def expected(self):
        return (PICTURES,)


class TestCsv(SourceSuite):
    def opened(self, folder):
        lines = [",".join(map(repr, row)) for row in ROWS.tolist()]
        if not (folder / "x.csv").exists():
            (folder / "x.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
        return open_source(folder / "x.csv")

    def expected(self):
        return (ROWS,)


class TestCsvInBlocks(TestCsv):
    def opened(self, folder):
        source = super().opened(folder)
        source._reader.nbytes = 1 << 40  # as if it were too large to be held
        return source


class TestParquet(SourceSuite):
    def opened(self, folder):
        if not (folder / "x.parquet").exists():
            table = pa.table({name: ROWS[:, i] for i, name in enumerate("abc")})
            pq.write_table(table, folder / "x.parquet", row_group_size=4)
        return open_source(folder / "x.parquet")

    def expected(self):
        return (ROWS,)


class TestParquetInBlocks(TestParquet):
    def opened(self, folder):
        source = super().opened(folder)
        source._reader.nbytes = 1 << 40
        return source


class TestSyntheticPictures(SourceSuite):
    def opened(self, folder):
        return open_source("synthetic:moving?frames=12&width=34&height=21&cut=5")


class TestSyntheticRows(SourceSuite):
    def opened(self, folder):
        return open_source("synthetic:rows?frames=12&columns=3")


EVENTS = np.random.default_rng(3).integers(0, [30, 20, 2], (60, 3)).astype(np.uint16)
EVENT_TIMES = np.sort(np.random.default_rng(4).integers(0, 40_000, 60))


def _recorded(folder):
    np.savez(folder / "x.npz", t=EVENT_TIMES, x=EVENTS[:, 0], y=EVENTS[:, 1], p=EVENTS[:, 2], sensor=(20, 30))
    return folder / "x.npz"


class TestEvents(SourceSuite):
    def opened(self, folder):
        return open_source(_recorded(folder) if not (folder / "x.npz").exists() else folder / "x.npz")

    def expected(self):
        return (EVENTS,)


class TestPicturesOfEvents(SourceSuite):
    def opened(self, folder):
        path = folder / "x.npz" if (folder / "x.npz").exists() else _recorded(folder)
        return open_source(f"{path}?window=5ms")

    def expected(self):
        counts = np.zeros((-(-(EVENT_TIMES[-1] + 1 - EVENT_TIMES[0]) // 5000), 2, 20, 30), np.uint16)
        for time, (x, y, p) in zip(EVENT_TIMES, EVENTS, strict=True):
            counts[(time - EVENT_TIMES[0]) // 5000, p, y, x] += 1
        return (counts,)
