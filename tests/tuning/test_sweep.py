"""Sweeps with a measurement of known cost, and one over real runs that counts what is called."""

import itertools
import json

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers import profile, set_up
from hyperframes.errors import PipelineError
from hyperframes.pipeline import Pipeline
from hyperframes.scheduling.sizing import makespan
from hyperframes.tuning import Cell, Measurement, sweep
from hyperframes.tuning.sample import Repeated, take_sample
from hyperframes.tuning.sweep import default_workers, fit_costs, measure, summary

FRAMES = np.random.default_rng(3).integers(0, 255, (12, 6, 8), np.uint8)
CHAIN = ["temporal_median:radius=2"]
SIZES = (8, 16, 32, 64, 128)

FIXED, FRAME, HALO = 0.004, 0.001, 4


def model(pipeline, sample, size, workers, frames, viewed):
    """What W3 says for this many frames, as if no time were lost elsewhere."""
    seconds = makespan(frames, size, workers, FIXED, FRAME, HALO)
    return Measurement(frames, seconds, seconds * workers)


def pipeline_of(source=FRAMES, chain=CHAIN, **options):
    return Pipeline.of(source, chain, **options)


def swept(measure=model, **options):
    options = {"sizes": SIZES, "workers": [1, 2], **options}
    return sweep(pipeline_of(), measure=measure, **options)


@pytest.mark.requirement("X25")
@pytest.mark.requirement("W3")
def test_the_costs_of_the_model_come_out_of_the_sweep():
    costs = swept().costs()
    assert set(costs) == {1, 2}
    for found in costs.values():
        assert found.fixed_seconds == pytest.approx(FIXED, rel=1e-6)
        assert found.frame_seconds == pytest.approx(FRAME, rel=1e-6)


@pytest.mark.requirement("A35")
def test_the_knee_is_the_smallest_size_within_3_percent_of_the_best():
    found = swept(sizes=(8, 16, 32, 64, 128, 256, 512))
    # (s + (S + halo) t) / S a frame: 1 + 8 / S ms; the best is 1.0156 ms at 512, so at most 1.047 ms will do: S >= 170
    assert found.knee(1) == 256
    assert found.workers == 2
    assert found.size == 256
    assert found.frames_per_second == pytest.approx(2 / (0.001 * (1 + 8 / 256)))


def test_few_workers_win_where_more_gain_nothing():
    def memory_bound(pipeline, sample, size, workers, frames, viewed):
        return model(pipeline, sample, size, 1, frames, viewed)

    assert swept(memory_bound).workers == 1


def test_repetitions_are_interleaved_and_the_first_run_does_not_count():
    seen = []

    def noting(pipeline, sample, size, workers, frames, viewed):
        seen.append((size, workers))
        rate = 1.0 if len(seen) == 1 else 100.0  # as if the first compiled
        return Measurement(frames, frames / rate, frames / rate)

    found = swept(noting, sizes=(8, 16), workers=[1], repetitions=3)
    assert seen == [(8, 1), (8, 1), (16, 1), (16, 1), (8, 1), (8, 1), (16, 1)]
    assert [cell.frames_per_second for cell in found.cells] == [pytest.approx(100.0)] * 2


def test_the_median_and_its_deviation_stand_for_a_cell():
    rates = itertools.cycle([100.0, 100.0, 40.0, 104.0])  # the first is the one that does not count

    def disturbed(pipeline, sample, size, workers, frames, viewed):
        rate = next(rates)
        return Measurement(frames, frames / rate, frames / 90.0)

    (cell,) = swept(disturbed, sizes=(8,), workers=[1]).cells
    assert cell.frames_per_second == pytest.approx(100.0)
    assert cell.deviation == pytest.approx(4.0)
    assert cell.frames_per_cpu_second == pytest.approx(90.0)


def test_on_a_busy_machine_processor_time_decides():
    noise = np.random.default_rng(1)

    def noisy(pipeline, sample, size, workers, frames, viewed):
        quiet = model(pipeline, sample, size, workers, frames, viewed)
        return quiet._replace(seconds=quiet.seconds * noise.uniform(0.4, 1.7))

    found = swept(noisy, sizes=(8, 16, 32, 64, 128, 256, 512))
    assert found.noisy
    assert found.knee(1) == 256
    assert found.costs()[1].fixed_seconds == pytest.approx(FIXED, rel=1e-6)
    assert found.to_json()["decided_by"] == "frames_per_cpu_second"
    assert any("the machine was busy" in line for line in summary(found))


@pytest.mark.requirement("A13")
@pytest.mark.requirement("A108")
def test_cells_that_do_not_fit_in_memory_are_invalid_and_say_so():
    found = swept(max_memory=20_000)
    invalid = [cell for cell in found.cells if cell.invalid]
    assert {cell.size for cell in invalid} >= {128}
    assert all(cell.measurements == () for cell in invalid)
    assert invalid[-1].invalid.endswith(": 20 kB are allowed")
    assert found.size < 128
    assert found.halo.total == HALO  # the chain's own in every cell: a smaller one would be wrong


def test_when_nothing_fits_that_is_said():
    with pytest.raises(PipelineError, match=r"^nothing is left to measure: needs .* are allowed$") as caught:
        swept(sizes=(512,), workers=[1], max_memory=5_000)
    assert caught.value.hint == "Try smaller --sizes or fewer --workers."


def test_more_workers_than_twice_the_cores_are_invalid():
    found = swept(sizes=(8,), workers=[1, 500])
    assert "are more than twice the" in found.cell(8, 500).invalid


def test_two_sources_cannot_be_tuned():
    two = Pipeline.of({"a": FRAMES, "b": FRAMES}, [])
    with pytest.raises(PipelineError, match=r"^tuning measures pipelines of one source: got 2$"):
        sweep(two, measure=model)


def test_an_empty_source_cannot_be_measured_with():
    with pytest.raises(PipelineError, match=r"^array has no frames to measure with: expected at least one$"):
        sweep(pipeline_of(FRAMES[:0]), measure=model)


def test_with_one_size_all_cost_is_that_of_frames():
    cell = Cell(10, 1, 1, (Measurement(100, 1.4, 1.4),))
    costs = fit_costs([cell], 4)
    assert costs.fixed_seconds == 0
    assert costs.frame_seconds == pytest.approx(0.01)


def test_one_disturbed_cell_moves_the_costs_little():
    cells = [
        Cell(s, 1, 1, (Measurement(s, (0.004 + 0.001 * s) * (3 if s == 32 else 1), 1.0),))
        for s in (4, 8, 16, 32, 64, 128)
    ]
    costs = fit_costs(cells, 0)
    assert costs.frame_seconds == pytest.approx(0.001, rel=0.1)
    assert costs.fixed_seconds == pytest.approx(0.004, rel=0.2)


@pytest.mark.parametrize(("cores", "tried"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_workers_are_tried_in_powers_of_two_up_to_the_cores(cores, tried):
    assert default_workers(cores) == tried


# Layouts --------------------------------------------------------------------------------------------------------------

COLOURS = np.random.default_rng(4).integers(0, 255, (12, 6, 8, 3), np.uint8)


def quicker_in(layout, by):
    """What `model` says, but `by` times as fast in `layout`."""

    def measured(pipeline, sample, size, workers, frames, viewed):
        found = model(pipeline, sample, size, workers, frames, viewed)
        gain = by if pipeline.options.work_layout == layout else 1.0
        return Measurement(frames, found.seconds / gain, found.cpu_seconds / gain)

    return measured


def in_colour(measure=model, chain=CHAIN, options=None, **how):
    return sweep(pipeline_of(COLOURS, chain, **options or {}), sizes=(8, 64), workers=[1], measure=measure, **how)


@pytest.mark.parametrize(("gain", "layout"), [(0.9, "NHWC"), (1.02, "NHWC"), (1.2, "NCHW")])
def test_another_layout_is_kept_where_it_is_faster_by_more_than_the_tolerance(gain, layout):
    found = in_colour(quicker_in("NCHW", gain))
    assert [cell.place for cell in found.cells] == [
        ("NHWC", 8, 1), ("NHWC", 64, 1), ("NCHW", 8, 1), ("NCHW", 64, 1),
    ]  # fmt: skip
    assert (found.layout, found.size) == (layout, 64)
    assert found.profile().layout == layout
    assert found.cell(64, 1).layout == layout
    assert found.unlike == ()
    assert any(line.startswith(f"layout {layout}: at best NHWC ") for line in summary(found))


def test_a_layout_with_other_results_is_measured_and_never_chosen():
    found = in_colour(quicker_in("NCHW", 3.0), chain=["bilateral"])
    assert found.unlike == ("NCHW",)
    assert found.layout == "NHWC"
    assert any("NCHW" in line and "other results" in line for line in summary(found))


def test_a_clip_on_which_layouts_happen_to_agree_does_not_make_them_alike():
    black = pipeline_of(np.zeros_like(COLOURS), ["bilateral"])
    found = sweep(black, sizes=(8, 64), workers=[1], measure=quicker_in("NCHW", 3.0))
    assert found.unlike == ("NCHW",)
    assert found.layout == "NHWC"


def test_a_layout_that_an_operator_refuses_is_invalid_with_its_reason():
    found = in_colour(chain=["stabilize"])
    assert found.layout == "NHWC"
    assert "channels last" in found.cell(8, 1, "NCHW").invalid
    assert any("NCHW cannot be used" in line for line in summary(found))


def test_a_layout_that_somebody_fixed_is_the_only_one():
    assert in_colour(options={"layout": "NCHW"}).layouts == ["NCHW"]
    assert swept().layouts == ["NHWC"]  # nothing to turn
    with pytest.raises(PipelineError, match="the layout is fixed to NCHW: there is nothing to try"):
        in_colour(options={"layout": "NCHW"}, layouts=["NHWC"])
    with pytest.raises(PipelineError, match="expected one of NHWC, NCHW, got 'CHW'"):
        in_colour(layouts=["CHW"])


# Real runs ------------------------------------------------------------------------------------------------------------


def test_a_real_measurement_counts_the_frames_after_the_first_hyperframes():
    took = measure(pipeline_of(), take_sample(hf.open(FRAMES)), 4, 1, 24, False)
    assert took.frames == 24
    assert took.seconds > 0
    assert took.cpu_seconds > 0


def test_a_sweep_over_a_real_operator_leaves_a_profile_that_runs_use(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRAMES_CACHE", str(tmp_path))
    found = sweep(pipeline_of(), sizes=(2, 3), workers=[1], repetitions=1)
    path = profile.save_profile(found.profile())
    assert path.is_relative_to(tmp_path)
    setup = set_up(pipeline_of(np.tile(FRAMES, (2, 1, 1)), workers=1))
    assert setup.size == found.size
    assert setup.size_reasons[0].startswith(f"tuned on {found.created[:10]} with 1 worker: ")
    json.dumps(found.to_json(), allow_nan=False)


def test_a_sequential_chain_with_records_can_be_measured():
    took = measure(Pipeline.of(FRAMES, ["measure"]), take_sample(hf.open(FRAMES)), 4, 2, 16, True)
    assert took.frames == 16


def test_a_sample_is_played_forwards_and_backwards():
    sample = take_sample(hf.open(FRAMES[:3]))
    order = [int(np.flatnonzero((FRAMES[:3] == f.planes[0]).all((1, 2)))[0]) for f in Repeated(sample, 8).read()]
    assert order == [0, 1, 2, 1, 0, 1, 2, 1]
    planes, pts = Repeated(sample, 8, viewed=True).arrays()
    assert (planes[0] == FRAMES[order]).all()
    assert np.diff(pts).min() > 0
    single = take_sample(hf.open(FRAMES[:1]))
    assert [f.index for f in Repeated(single, 3).read()] == [0, 1, 2]


def test_a_sample_is_bounded_in_frames_and_bytes():
    assert len(take_sample(hf.open(FRAMES), max_frames=5)) == 5
    assert len(take_sample(hf.open(FRAMES), max_bytes=48 * 7)) == 7
