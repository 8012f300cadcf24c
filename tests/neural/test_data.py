"""What training reads: samples, splits that do not leak, windows that follow from seed and step, filters and labels."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import write_clip

from hyperframes.errors import FrameError, SourceError
from hyperframes.neural import data
from hyperframes.neural.data import LabelAnchor, LabelTrack, Sample, Windows
from hyperframes.neural.data.samples import _families
from hyperframes.semantic import Descriptor


def table(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


# Samples --------------------------------------------------------------------------------------------------------------


def test_a_table_gives_a_sample_a_row(tmp_path):
    path = table(
        tmp_path / "labels.csv",
        [
            {"recording": "a", "from": 3, "to": 9, "what": "fall", "scene": "x", "day": 1},
            {"recording": "b", "from": 0, "to": 4, "what": "walk", "scene": "x", "day": 2},
        ],
    )
    found = data.read_table(
        path, source="{recording}.mp4", label="what", split=None, groups=["scene+day"], start="from", stop="to",
        joined={"fall": "fall", "*": "other"},
    )  # fmt: skip
    assert found == [
        Sample(str(tmp_path / "a.mp4"), "fall", "", ("scene+day=x/1",), 3, 9),
        Sample(str(tmp_path / "b.mp4"), "other", "", ("scene+day=x/2",), 0, 4),
    ]


def test_a_wrong_table_is_told_by_column_and_line(tmp_path):
    path = table(tmp_path / "labels.csv", [{"file": "a", "label": "x", "split": "train", "from": "two"}])
    with pytest.raises(SourceError, match=r"has no column 'person'; known: file, label, split, from"):
        data.read_table(path, groups=["person"])
    with pytest.raises(SourceError, match=r"line 2: expected the number of a frame, got 'two'"):
        data.read_table(path, start="from")
    for source in ("{}", "{file", "{file.real}", "{file!r}", "{file:>9999999}"):
        with pytest.raises(SourceError, match="expected names of columns in braces"):
            data.read_table(path, source=source)
    with pytest.raises(SourceError, match="cannot read the table"):
        data.read_table(tmp_path / "none.csv")


def test_a_row_that_ends_early_is_told_and_a_mark_of_its_encoding_is_none_of_the_table(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"\xef\xbb\xbffile,label,split\na,x,train\nb,y\n")
    with pytest.raises(SourceError, match=r"labels\.csv, line 3: the row ends before its 'split'"):
        data.read_table(path)
    path.write_bytes(b"\xef\xbb\xbffile,label,split\na,x,train\n")
    assert data.read_table(path)[0].label == "x"


def test_a_table_without_the_column_of_the_split_is_told_how_to_do_without(tmp_path):
    (tmp_path / "t.csv").write_text("file,label\na.npy,b\n")
    with pytest.raises(SourceError, match="has no column 'split'") as caught:
        data.read_table(tmp_path / "t.csv")
    assert 'split = ""' in caught.value.hint


def test_a_folder_of_folders_is_labelled_by_their_names(tmp_path):
    for name in ("kick/1.mp4", "kick/.hidden", "punch/2.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = data.read_folder(tmp_path)
    assert [(s.label, s.source.rpartition("/")[2]) for s in found] == [("kick", "1.mp4"), ("punch", "2.mp4")]
    with pytest.raises(SourceError, match="holds no samples: expected a folder for each label"):
        data.read_folder(tmp_path / "kick")


def test_a_group_on_two_sides_is_refused_by_name():
    samples = [Sample("a", "x", "train", ("person=7",)), Sample("b", "x", "test", ("person=7",))]
    with pytest.raises(FrameError, match=r"the split leaks: person=7 is in test \(b\) and train \(a\)"):
        data.check_leaks(samples)


def test_frames_on_two_sides_are_refused_whatever_groups_say():
    sides = [Sample("a", "x", "train", ("g=1",), 0, 10), Sample("a", "y", "test", ("g=2",), 9, 20)]
    with pytest.raises(FrameError, match="frame 9 of a"):
        data.check_leaks(sides)
    data.check_leaks([sides[0], Sample("a", "y", "test", ("g=2",), 10, 20)])


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("ab")), min_size=12, max_size=40),
    st.integers(0, 5),
)
def test_a_split_by_groups_never_leaks_and_gives_every_side_something(rows, seed):
    samples = [Sample(f"{i}", label, "", (f"p={p}", f"s={s}")) for i, (p, s, label) in enumerate(rows)]
    if len(_families(samples)) < 2:
        with pytest.raises(FrameError, match="cannot be split into 2 sides"):
            data.split(samples, {"train": 0.7, "test": 0.3}, seed)
        return
    made = data.split(samples, {"train": 0.7, "test": 0.3}, seed)
    data.check_leaks(made)
    assert {sample.split for sample in made} == {"train", "test"}
    assert made == data.split(samples, {"train": 0.7, "test": 0.3}, seed)


def test_shares_of_a_split_are_met_where_groups_allow_it():
    samples = [Sample(f"{i}", "ab"[i % 2], "", (f"p={i // 4}",)) for i in range(80)]
    made = data.split(samples, {"train": 0.75, "validation": 0.25})
    assert sum(sample.split == "train" for sample in made) == 60
    kept = [sample for sample in made if sample.split == "validation"]
    assert sum(sample.label == "a" for sample in kept) == 10


# Windows --------------------------------------------------------------------------------------------------------------


class Held:
    """Clips that lie in memory."""

    def __init__(self, clips, labels):
        self._clips, self.samples = clips, [Sample(f"{i}", label) for i, label in enumerate(labels)]

    def __len__(self):
        return len(self._clips)

    def __getitem__(self, index):
        return self._clips[index]


def counted(*lengths):
    """Clips whose frame t has the value t everywhere."""
    return [np.tile(np.arange(n, dtype=np.uint8)[:, None, None, None], (1, 4, 6, 3)) for n in lengths]


def test_a_window_takes_every_stride_and_repeats_the_last_frame():
    windows = Windows(Held(counted(7), "a"), ("a",), frames=4, stride=2)
    assert windows.window(0, 1).shape == (3, 4, 4, 6)
    assert (windows.window(0, 1)[0, :, 0, 0] * 255).tolist() == [1, 3, 5, 6]


def test_views_are_spread_over_the_clip():
    windows = Windows(Held(counted(10), "a"), ("a",), frames=2, stride=1)
    assert (windows.views(0, 4)[:, 0, 0, 0, 0] * 255).round().tolist() == [1, 3, 5, 7]


@pytest.mark.requirement("D75")
def test_pairs_are_neighbours_of_one_clip():
    windows = Windows(Held(counted(30, 30, 30), "aab"), ("a", "b"), frames=4, stride=1, hop=3)
    batch = windows.batch(5, 4, pairs=True)
    first = (batch.clips[:, 0, 0, 0, 0] * 255).round()
    assert (first[1::2] - first[::2]).tolist() == [3, 3]
    assert batch.order.tolist() == [0, 1, 0, 1]
    assert batch.group[0] == batch.group[1] != batch.group[2]


def test_a_step_follows_from_its_seed_and_number_alone():
    windows = Windows(Held(counted(30, 20), "ab"), ("a", "b"), 4, flip=True, shift=1, brightness=0.2, seed=3)
    a, b = windows.batch(17, 4), windows.batch(17, 4)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not torch.equal(windows.batch(18, 4).clips, a.clips)


def test_windows_are_turned_and_zoomed_about_their_middle_by_at_most_as_much():
    spot = np.zeros((1, 33, 33, 1), np.float32)
    spot[0, 16, 26] = 1  # 10 pixels to the right of the middle

    def places(**changes):
        windows = Windows(Held([spot], "a"), ("a",), 1, **changes)
        for step in range(40):
            mass = windows.batch(step, 1).clips[0, 0, 0].numpy()
            yield np.array([(mass * line).sum() / mass.sum() for line in np.mgrid[-16:17, -16:17]])

    turned = np.array(list(places(turn=30.0)))
    angles = np.degrees(np.arctan2(turned[:, 0], turned[:, 1]))
    assert 25 < np.abs(angles).max() < 31
    np.testing.assert_allclose(np.hypot(*turned.T), 10, atol=0.3)
    zoomed = np.array(list(places(zoom=0.2)))
    assert np.abs(zoomed[:, 0]).max() < 0.1
    assert (zoomed[:, 1] > 7.9).all()
    assert (zoomed[:, 1] < 12.1).all()
    assert np.ptp(zoomed[:, 1]) > 3
    with pytest.raises(FrameError, match="small changes"):
        Windows(Held([spot], "a"), ("a",), zoom=1.0)


def test_every_sample_is_seen_before_any_is_seen_again():
    windows = Windows(Held(counted(*[9] * 7), "a" * 7), ("a",), 4)
    seen = torch.cat([windows.batch(step, 2).group for step in range(7)]).tolist()
    assert sorted(seen[:7]) == sorted(seen[7:]) == list(range(7))


def test_an_unknown_class_is_refused():
    with pytest.raises(FrameError, match="no class is called 'b'; known: a"):
        Windows(Held(counted(3), "b"), ("a",))


@pytest.mark.requirement("D68", "D69")
@pytest.mark.slow
def test_a_clip_is_read_exactly_without_files_of_its_own(tmp_path):
    luma = np.full((12, 32, 48), 60, np.uint8)
    luma[:] += (10 * np.arange(12, dtype=np.uint8))[:, None, None]
    path = write_clip(tmp_path / "clip.mp4", luma)
    before = sorted(tmp_path.iterdir())
    frames = data.read_clip(Sample(str(path), "a", start=3, stop=9), size=(16, 24))
    assert frames.shape == (6, 16, 24, 3)
    assert np.diff(frames.mean((1, 2, 3))).min() > 5  # one frame after the other, none twice
    assert sorted(tmp_path.iterdir()) == before


def test_clips_beyond_the_cache_are_read_again(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.full((4, 8, 8, 3), i, np.uint8))
    clips = data.Clips([Sample(str(tmp_path / f"{i}.npy"), "a") for i in range(3)], size=(8, 8), cache_bytes=2000)
    assert [int(clips[i].mean()) for i in (0, 1, 2, 0)] == [0, 1, 2, 0]
    assert clips._bytes <= 2000


def test_rows_become_pictures(tmp_path):
    rows = np.concatenate([np.zeros((5, 1)), np.linspace(20, 40, 5 * 6).reshape(5, 6)], 1)
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="RT," + ",".join("abcdef"), comments="")
    frames = data.read_clip(
        Sample(str(tmp_path / "rows.csv"), "a", start=1, stop=3), form="rows", size=(2, 3), limits=(20, 40)
    )
    np.testing.assert_allclose(frames[..., 0].reshape(2, 6), (rows[1:3, 1:] - 20) / 20, atol=1e-6)
    with pytest.raises(FrameError, match="make no pictures of"):
        data.read_clip(Sample(str(tmp_path / "rows.csv"), "a"), form="rows", size=(4, 4))


# Filters --------------------------------------------------------------------------------------------------------------


def textured(height=64, width=64, seed=0):
    return np.random.default_rng(seed).integers(0, 255, (height, width)).astype(np.float64)


@pytest.mark.requirement("D59", "D60")
def test_a_tiny_motion_keeps_a_clip_and_noise_does_not():
    still = np.repeat(np.kron(textured(16, 16), np.ones((4, 4)))[None], 8, 0)
    noise = np.random.default_rng(1).normal(0, 2, still.shape)
    moving = still.copy()
    for t in range(8):
        moving[t, 24:32, 16 + 2 * t : 20 + 2 * t] = 255
    clips = {
        name: np.clip(clip + noise, 0, 255).astype(np.uint8) for name, clip in (("still", still), ("moving", moving))
    }
    found = {name: data.least_tile_ssim(clip) for name, clip in clips.items()}
    assert found["still"] > 0.98
    assert found["moving"] < 0.9
    whole = np.mean([data.tile_ssim(*pair).mean() for pair in zip(clips["moving"], clips["moving"][1:], strict=False)])
    assert whole > 0.98  # the mean over the picture would have dropped it


def test_tiles_agree_with_a_loop():
    a, b = textured(17, 25, 1), textured(17, 25, 2)
    found = data.tile_ssim(a, b)
    noise = (np.median(np.abs(a[:16, :24] - b[:16, :24])) / 0.6745) ** 2 / 2
    for i, j in np.ndindex(2, 3):
        p, q = (x[8 * i : 8 * i + 8, 8 * j : 8 * j + 8] for x in (a, b))
        vp, vq = max(0, p.var() - noise), max(0, q.var() - noise)
        both = np.clip(((p - p.mean()) * (q - q.mean())).mean(), -np.sqrt(vp * vq), np.sqrt(vp * vq))
        c1, c2 = 2.55**2, 7.65**2
        wanted = (
            (2 * p.mean() * q.mean() + c1) / (p.mean() ** 2 + q.mean() ** 2 + c1) * (2 * both + c2) / (vp + vq + c2)
        )
        assert found[i, j] == pytest.approx(wanted)
    with pytest.raises(FrameError, match="tiles of 8 pixels need two pictures of one size"):
        data.tile_ssim(a, b[:8])


@pytest.mark.requirement("D61")
def test_motion_scales_are_binned_by_rate_and_normalised_within():
    seconds = np.arange(5) / 10
    growing = data.area_rate(100 * np.exp(0.3 * seconds), seconds)
    shrinking = data.area_rate(7 * np.exp(-0.3 * seconds), seconds)
    assert growing == pytest.approx(0.3, rel=1e-3)
    assert shrinking == pytest.approx(0.3, rel=1e-3)
    assert data.area_rate(np.array([0, 4.0, 0]), np.arange(3)) == 0
    bins, scale = data.bin_scales([0.05, 0.3, 0.2, 0.4, 1.0, 9.0], [5, 10, 30, 20, 1, 1])
    assert bins.tolist() == [0, 1, 1, 1, 2, 3]
    assert scale.tolist() == [0.5, 0, 1, 0.5, 0.5, 0.5]


@pytest.mark.slow
@pytest.mark.requirement("D61")
def test_the_area_of_what_moves_is_its_outline_and_its_rate_falls_into_a_bin(tmp_path):
    """A square before a textured wall moves, and grows by 0.8 of its area a second."""
    random = np.random.default_rng(0)
    frames = np.repeat(random.integers(60, 90, (1, 60, 80), np.uint8), 40, 0)
    sides = np.sqrt(100 * np.exp(0.8 * np.arange(40) / 25))
    truth = []
    for i, one in enumerate(np.rint(sides).astype(int)):
        top, left = 10 + i % 7, 2 + i
        frames[i, top : top + one, left : left + one] = 220
        truth.append(one * one / 4800)
    frames = np.clip(frames + random.integers(-2, 3, frames.shape), 0, 255).astype(np.uint8)
    areas, seconds = data.moving_areas(write_clip(tmp_path / "grows.mp4", frames))
    np.testing.assert_allclose(areas, truth, rtol=0.05)
    np.testing.assert_allclose(np.diff(seconds), 1 / 25)
    smooth = slice(None, None, 13)  # whole pixels grow in steps
    assert data.area_rate(areas[smooth], seconds[smooth]) == pytest.approx(0.8, rel=0.15)
    assert data.bin_scales([data.area_rate(areas[smooth], seconds[smooth])], [areas.mean()])[0].tolist() == [2]
    still, _ = data.moving_areas(np.repeat(frames[:1], 5, 0))
    assert still.tolist() == [0] * 5


# Labels ---------------------------------------------------------------------------------------------------------------


def track(*anchors, size=(100, 100)):
    roles = ["start", *["evolution"] * (len(anchors) - 2), "end"]
    return LabelTrack(tuple(LabelAnchor(r, *a) for r, a in zip(roles, anchors, strict=True)), size)


@pytest.mark.requirement("D63", "D64", "D65")
@pytest.mark.parametrize(
    ("anchors", "told"),
    [
        ([("end", 0, 1, 1), ("start", 5, 1, 1)], "a start, evolutions and an end"),
        ([("start", 5, 1, 1), ("end", 5, 2, 2)], "ascending frames: got end at 5 after 5"),
        ([("start", 0, 1, 1), ("end", 5, 100, 2)], "lies outside of 100 rows"),
    ],
)
def test_a_track_that_is_none_is_refused(anchors, told):
    with pytest.raises(FrameError, match=told):
        LabelTrack(tuple(LabelAnchor(*a) for a in anchors), (100, 100))


@pytest.mark.requirement("D66")
def test_two_anchors_are_a_line_and_three_a_parabola():
    np.testing.assert_allclose(track((2, 0, 10), (6, 8, 2)).path()[:, 0], [0, 2, 4, 6, 8], atol=1e-9)
    t = np.arange(9)
    bent = track((0, 10, 1), (3, 10 + 9, 1), (8, 10 + 64, 1)).path()
    np.testing.assert_allclose(bent[:, 0], 10 + t**2, atol=1e-9)


@pytest.mark.requirement("D66")
def test_the_natural_spline_is_smooth_and_straight_at_its_ends():
    one = track((0, 10, 50), (40, 60, 30), (100, 20, 40), (160, 80, 90), (200, 50, 50))
    times = [0, 40, 100, 160, 200]
    np.testing.assert_allclose(one.path(times), [(10, 50), (60, 30), (20, 40), (80, 90), (50, 50)], atol=1e-9)
    second = np.diff(one.path(), 2, axis=0)
    assert np.abs(second[[0, -1]]).max() < 0.1 * np.abs(second).max()
    assert np.abs(np.diff(second, axis=0)).max() < 0.1 * np.abs(second).max()  # no jump at an anchor


@pytest.mark.requirement("D66")
@given(st.lists(st.floats(0, 99), min_size=4, max_size=8), st.integers(0, 9))
def test_the_shape_preserving_path_never_overshoots(places, seed):
    frames = np.cumsum(np.random.default_rng(seed).integers(1, 20, len(places)))
    one = track(*[(int(f), p, 50) for f, p in zip(frames, places, strict=True)])
    for before, after, a, b in zip(frames, frames[1:], places, places[1:], strict=False):
        path = one.path(range(before, after + 1), shape_preserving=True)[:, 0]
        assert min(a, b) - 1e-6 <= path.min()
        assert path.max() <= max(a, b) + 1e-6


def test_a_path_is_drawn_where_it_runs():
    maps = data.heat_maps(np.array([[31.0, 7.0], [63.0, 63.0]]), (64, 128), side=64)
    assert maps.shape == (2, 64, 64)
    assert np.unravel_index(maps[0].argmax(), (64, 64)) == (7, 15)
    assert maps.max() <= 1


@pytest.mark.requirement("C74")
def test_a_pseudo_label_grows_with_the_box_and_fades():
    box = np.array([[0.25, 0.25, 0.5, 0.5, 0.9, 0.0]], np.float32)
    small = np.array([[0.45, 0.45, 0.55, 0.55, 0.9, 0.0]], np.float32)
    label, little = data.pseudo_label(box), data.pseudo_label(small)
    assert label.shape == (64, 64)
    assert label[24, 24] == pytest.approx(0.9, abs=0.02)
    assert label[24, 14] > 0.1  # beyond the box: widened
    assert label[0, 63] == 0
    assert label.sum() > 4 * little.sum()


# Queue ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D121")
def test_the_unsure_come_first_and_twins_last():
    p = np.array([[0.98, 0.02], [0.5, 0.5], [0.5, 0.5], [0.6, 0.4]])
    vectors = np.array([[1, 0], [0, 1], [0, 1], [1, 0.2]], float)
    assert [c.place for c in data.hardest(p, count=4)] == [1, 2, 3, 0]
    chosen = data.hardest(p, vectors, count=4)
    assert [c.place for c in chosen][:2] == [1, 3]
    assert {c.place: c.distance for c in chosen}[2] == pytest.approx(0)
    assert [c.place for c in data.hardest(p, count=1, by="margin")] == [1]
    with pytest.raises(FrameError, match="rows that add up to 1"):
        data.hardest(p * 2, count=1)


# Real files -----------------------------------------------------------------------------------------------------------


@pytest.mark.media
@pytest.mark.slow
def test_the_splits_of_the_real_sets_do_not_leak(media):
    people = data.read_table(media / "actions/person_tracks/labels.csv", groups=["scene+sequence"])
    fights = data.read_table(media / "actions/surveillance_fights/labels.csv", groups=["source"])
    data.check_leaks(people)
    with pytest.raises(FrameError, match=r"nofi022\.mp4 is in test .* and train"):
        data.check_leaks(fights)  # one clip stands in the published table twice, under two web videos
    data.check_leaks([s for s in fights if not (s.source.endswith("nofi022.mp4") and s.split == "train")])
    assert [sum(s.split == side for s in people) for side in ("train", "test")] == [88, 42]
    assert data.Clips(people[:2], size=(64, 64))[1].shape[1:] == (64, 64, 3)


@pytest.mark.media
def test_a_recording_of_events_keeps_its_mass(media):
    events = data.read_table(media / "events/nmnist/labels.csv")
    grid = data.read_clip(events[0], form="events", size=(48, 48), bins=16, sensor=(34, 34))
    assert grid.shape == (16, 48, 48, 2)
    with open(media / "events/nmnist/labels.csv") as file:
        count = int(next(csv.DictReader(file))["events"])
    assert grid.sum() == pytest.approx(count, rel=1e-5)


@pytest.mark.media
def test_thermal_segments_are_pictures_of_their_rows(media):
    falls = data.read_table(
        media / "actions/thermal_falls/labels.csv", source="{recording}_thermal.csv.gz", split=None,
        groups=["recording"], start="start_frame", stop="end_frame", joined={"falling": "fall", "*": "other"},
    )  # fmt: skip
    frames = data.read_clip(falls[0], form="rows", size=(24, 32), limits=(20, 40))
    assert frames.shape == (30, 24, 32, 1)
    assert 0 < frames.mean() < 1


@pytest.mark.requirement("C35")
def test_a_loader_of_torch_takes_descriptors_as_they_are():
    """Only what comes before a model is replaced: descriptors are a sequence like any data set."""
    several = [
        Descriptor(
            "a.mp4",
            "0",
            (k, k + 1),
            (k, k + 1.0),
            semantic_features=np.full(512, k, np.float32),
            feature_parts=(True,) * 4,
        )
        for k in range(5)
    ]

    def joined(batch):
        return torch.from_numpy(np.stack([d.semantic_features for d in batch])), [d.core for d in batch]

    loaded = list(torch.utils.data.DataLoader(several, batch_size=2, collate_fn=joined))
    assert [tuple(features.shape) for features, _ in loaded] == [(2, 512), (2, 512), (1, 512)]
    assert torch.cat([features for features, _ in loaded])[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert loaded[2][1] == [(4, 5)]
