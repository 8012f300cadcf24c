"""Instants of several streams under any schedule of arrivals, and a series under any seals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.frames import FrameSpec
from hyperframes.packing import LIVE_TIME_BASE, Halo, Instants, Packer, Packing, Series, SlabPool, slab_capacity
from hyperframes.packing.assemble import blank_missing

PERIOD = 33_333_333
SPEC = FrameSpec.array((2, 3), np.uint8, time_base=LIVE_TIME_BASE)


def make_instants(streams, **options):
    packing = Packing(**{"kind": "spatial", **options})
    slabs = SlabPool(SPEC, packing.instants * streams, 12, shared=False)
    return Instants(SPEC, [f"s{i}" for i in range(streams)], slabs, packing, plan_id="run", ahead_ns=lambda: 0)


@pytest.mark.requirement("B70")
def test_frames_of_a_stream_stay_in_order_where_the_instants_begin_anew():
    instants, period = make_instants(3), PERIOD // 16
    for stream in range(3):
        instants.present(stream, there=True)  # the last one brings nothing, so that all stays open

    def bring(stream, number, ns):
        slot = instants.slot(stream, number, 1_000 * PERIOD + ns, ns, sender=True)
        return [] if isinstance(slot, str) else instants.push(stream)

    sealed = bring(0, 0, 0) + bring(1, 0, PERIOD) + bring(0, 1, 2 * PERIOD)
    instants.meet_period(period)  # as soon as it is known
    sealed += bring(1, 1, 2 * PERIOD + 4 * period)
    for number in range(2, 8):  # the first of them fits an instant before that of number 1
        sealed += bring(0, number, 2 * PERIOD + number * period)
    sealed += instants.finish("end")
    ids = [int(filled.hyperframe.header.frame_ids[0]) for filled in sealed if filled.hyperframe.mask[0]]
    assert ids == [0, 1, 3, 4, 5, 6, 7]


@pytest.mark.requirement("B94", "B70")
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(-12_000_000, 12_000_000), st.integers(0, 60)),
        max_size=60,
    ),
)
def test_each_frame_is_in_the_one_hyperframe_of_its_instant_or_refused(streams, size, schedule):
    instants = make_instants(streams, kind="both" if size > 1 else "spatial", size=size)
    for stream in range(streams):
        instants.present(stream, there=True)
    now, taken, sealed = 0, {}, []
    for number, (stream, instant, off, wait) in enumerate(schedule):
        stream %= streams
        now += wait * 1_000_000
        sealed += instants.due(now)
        slot = instants.slot(stream, number, 1_000 * PERIOD + instant * PERIOD + off, now, sender=True)
        if isinstance(slot, str):
            assert slot in {"late", "unmatched", "queue_full"}
            continue
        slot[0][...] = number % 256
        taken[number] = stream
        sealed += instants.push(stream)
    sealed += instants.finish("end")
    found = {}
    seen_before = -1
    for hyperframe, opened_ns, _ in sealed:
        blank_missing(hyperframe)
        header = hyperframe.header
        first = int(header.id.partition("[")[2].partition(",")[0])
        assert first > seen_before
        seen_before = first
        ids = header.frame_ids.reshape(-1, streams)
        for row, ids_of_instant in enumerate(ids):
            for stream, frame_id in enumerate(ids_of_instant.tolist()):
                place = row * streams + stream
                assert hyperframe.mask[place] == (frame_id >= 0)
                if frame_id >= 0:
                    assert frame_id not in found
                    found[frame_id] = stream
                    assert hyperframe.planes[0][place, 0, 0] == frame_id % 256
                else:
                    assert not hyperframe.planes[0][place].any()
        instants.slabs.release(hyperframe.slab)
        assert opened_ns <= now
        times = header.pts.reshape(-1, streams)
        for row in times:
            there = row[row >= 0]
            assert len(there) == 0 or there.max() - there.min() <= PERIOD + 4_000_000
    assert found == taken
    assert instants.slabs.leased == 0


def test_a_camera_halfway_between_two_instants_stays_with_one_of_them():
    instants = make_instants(2)
    for stream in range(2):
        instants.present(stream, there=True)
    rng = np.random.default_rng(1)
    sealed = []
    for k in range(100):
        for stream, phase in ((0, 0), (1, PERIOD // 2)):
            time = 10**12 + k * PERIOD + phase + int(rng.integers(-1_000_000, 1_000_000))
            slot = instants.slot(stream, k, time, k * PERIOD, sender=True)
            assert not isinstance(slot, str)
            sealed += instants.push(stream)
        for filled in sealed[-2:]:
            if instants.slabs.leased > 6:
                instants.slabs.release(filled.hyperframe.slab)
    apart = [np.diff(filled.hyperframe.header.frame_ids)[0] for filled in sealed if filled.hyperframe.mask.all()]
    assert len(apart) >= 98
    assert len(set(apart)) == 1


def test_a_slot_being_written_keeps_its_hyperframe_open():
    instants = make_instants(2)
    for stream in range(2):
        instants.present(stream, there=True)
    instants.slot(0, 1, 10**12, 0, sender=True)
    assert instants.finish("end") == []
    ((hyperframe, *_),) = instants.push(0)
    assert hyperframe.header.seal_reason == "end"
    assert hyperframe.mask.tolist() == [True, False]


@given(
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.sampled_from(["push", "push", "push", "seal", "full"]), max_size=60),
)
@pytest.mark.requirement("A100")
def test_a_series_owns_each_frame_once_with_its_halo_around_it(size, before, after, steps):
    halo = Halo(before, after)
    slabs = SlabPool(SPEC, slab_capacity(size, halo), 4, shared=False)
    packer = Packer(SPEC, size, halo, slabs, holds_back=False)
    series = Series(packer, Packing(size=size, timeout=1.0), lambda: 0)
    sealed, held, pushed, now = [], [], 0, 0
    for step in steps:
        now += 1_000_000
        if step == "push":
            slot = series.slot(pushed, now, pushed)
            if slot == "queue_full":
                continue
            slot[0][...] = pushed % 256
            pushed += 1
            new = series.push(now)
        elif step == "seal":
            new = series.event(now)
        else:
            new = []
            while held:
                slabs.release(held.pop().slab)
        for filled in new:
            check_frames(filled.hyperframe, before, after, pushed)
            sealed.append(filled.hyperframe.header.core)
            held.append(filled.hyperframe)
    for filled in series.finish("end"):
        check_frames(filled.hyperframe, before, after, pushed, end=pushed)
        sealed.append(filled.hyperframe.header.core)
    assert [frame for core in sealed for frame in range(*core)] == list(range(pushed))


def check_frames(hyperframe, before, after, pushed, end=None):
    start, stop = hyperframe.header.core
    read = (max(0, start - before), stop + after if end is None else min(stop + after, end))
    assert hyperframe.header.read == read
    assert read[1] <= pushed
    assert hyperframe.planes[0][:, 0, 0].tolist() == [n % 256 for n in range(*read)]


@pytest.mark.requirement("B89", "B69")
@given(
    st.lists(st.integers(-800_000_000, 800_000_000), min_size=1, max_size=3),
    st.lists(st.integers(0, 15_000_000), min_size=9, max_size=9),
    st.permutations(range(9)),
)
def test_cameras_whose_clocks_are_wrong_take_nothing_from_the_others(wrong, delays, order):
    instants = make_instants(9)
    for stream in range(9):
        instants.present(stream, there=True)
    bad = dict(enumerate(wrong))
    lost = dict.fromkeys(range(9), 0)
    for k in range(60):
        base = k * PERIOD
        for stream in order:
            now = base + delays[stream]
            for filled in instants.due(now):
                instants.slabs.release(filled.hyperframe.slab)
            slot = instants.slot(stream, k, 10**12 + base + bad.get(stream, 0), now, sender=True)
            if isinstance(slot, str):
                lost[stream] += k >= 12  # the first frame of all may be of a camera that is wrong
                continue
            for filled in instants.push(stream):
                instants.slabs.release(filled.hyperframe.slab)
    assert all(lost[stream] == 0 for stream in range(9) if stream not in bad), lost


def test_instants_begin_anew_where_most_cameras_frames_fit_none():
    instants = make_instants(3)
    for stream in range(3):
        instants.present(stream, there=True)
    verdicts = []
    for k in range(20):
        for stream in range(3):
            time = 10**12 + k * PERIOD - (10 * PERIOD if k >= 5 else 0)  # all clocks were set back
            slot = instants.slot(stream, k, time, k * PERIOD, sender=True)
            verdicts.append(slot if isinstance(slot, str) else "")
            if not isinstance(slot, str):
                for filled in instants.push(stream):
                    instants.slabs.release(filled.hyperframe.slab)
    assert verdicts[:15] == [""] * 15
    assert verdicts[15:21] == ["late"] * 6
    assert verdicts[24:] == [""] * 36


def test_a_pause_of_all_cameras_is_skipped_at_once():
    instants = make_instants(2)
    for stream in range(2):
        instants.present(stream, there=True)
    for at in (0, 1, 2, 900, 901):
        for stream in range(2):
            assert not isinstance(instants.slot(stream, at, 10**12 + at * PERIOD, at * PERIOD, sender=True), str)
            for filled in instants.push(stream):
                instants.slabs.release(filled.hyperframe.slab)


@pytest.mark.requirement("B69", "B94")
@pytest.mark.parametrize("ppm", [-300, 0, 300])
def test_cameras_spread_over_a_whole_period_keep_their_instants_and_lose_nothing(ppm):
    instants = make_instants(24)
    for stream in range(24):
        instants.present(stream, there=True)
    rng = np.random.default_rng(2)
    lost, holes = [], 0
    for k in range(1500):
        for stream in range(24):
            phase = stream * PERIOD // 24
            at = 10**12 + round((k * PERIOD + phase) * (1 + ppm * 1e-6)) + int(rng.normal(0, 150_000))
            slot = instants.slot(stream, k, at, k * PERIOD + phase, sender=True)
            if isinstance(slot, str):
                lost.append(k)
                continue
            for filled in instants.push(stream):
                holes += k > 300 and not filled.hyperframe.mask.all()
                instants.slabs.release(filled.hyperframe.slab)
    assert len([k for k in lost if k > 300]) <= 3
    assert holes <= 6
