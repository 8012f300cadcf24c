"""The map: checked as a whole before the first frame is read, and readable back from its own text."""

import numpy as np
import pytest
from tests.drivers.exact_operators import Resample, RunningSum, WindowMax, WindowSum

import hyperframes as hf
from hyperframes.errors import PipelineError, RegistryError
from hyperframes.frames import Field, FrameSpec, RecordSpec
from hyperframes.operators import Contract, Operator, Output
from hyperframes.packing import Halo
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.plan import plan_pipeline

ROWS = {"source": FrameSpec.array((4,), np.float64)}


def plan(*operators, **options):
    return plan_pipeline(Pipeline.of("x", list(operators), to={}, **options), ROWS)


class Rows(Operator):
    name = "rows"

    def configure(self, inputs):
        return Contract((Output("rows", "records", RecordSpec((Field("level", np.float64),))),))

    def apply(self, inputs, outputs, state, prepared):
        raise AssertionError


class Picky(Rows):
    name = "picky"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),), selects=True)


@pytest.mark.requirement("A23")
def test_a_window_of_five_frames_needs_two_on_each_side():
    assert plan("temporal_mean:radius=2").halo == Halo(2, 2)


def test_halos_of_a_chain_add_up():
    assert plan(WindowSum(2, 1), WindowSum(3, 0)).halo == Halo(5, 1)


def test_halos_are_converted_through_rates():
    assert plan(WindowSum(1, 1), Resample("1/5"), WindowSum(2, 0)).halo == Halo(11, 1)


def test_windows_reach_past_the_core():
    assert plan(WindowMax(8, 4)).halo == Halo(0, 7)


def test_a_mirroring_boundary_reads_as_far_on_both_sides():
    assert plan(WindowSum(4, 1), boundary="reflect").halo == Halo(4, 4)
    assert plan(WindowSum(4, 1), boundary="reflect").operator_halo == Halo(4, 1)


def test_independent_neighbours_fuse_and_a_sequential_stage_stands_alone():
    groups = plan(WindowSum(1, 1), WindowSum(0, 1), RunningSum(), WindowSum(1, 0)).groups
    assert [(group.stages, group.sequential, group.after) for group in groups] == [
        ((0, 1), False, ()),
        ((2,), True, (0,)),
        ((3,), False, (1,)),
    ]


def test_an_unknown_input_is_named_with_the_known_ones():
    pipeline = Pipeline.of("x", [Stage("sum", WindowSum(0, 0), ("sauce",))])
    with pytest.raises(PipelineError, match="stage 'sum' reads 'sauce', which nothing delivers; known: source"):
        plan_pipeline(pipeline, ROWS)


@pytest.mark.requirement("A64")
def test_stages_that_wait_for_each_other_are_refused():
    circle = [Stage("a", WindowSum(0, 0), ("b",)), Stage("b", WindowSum(0, 0), ("a",))]
    with pytest.raises(PipelineError, match="a"):
        plan_pipeline(Pipeline.of("x", circle), ROWS)


def test_stages_may_be_given_in_any_order():
    stages = [Stage("b", WindowSum(1, 0), ("a",)), Stage("a", WindowSum(0, 1), ("source",))]
    assert [stage.name for stage in plan_pipeline(Pipeline.of("x", stages, to={}), ROWS).stages] == ["a", "b"]


def test_inputs_of_different_rates_are_refused():
    stages = [Stage("slow", Resample("1/2"), ("source",)), Stage("sum", WindowSum(0, 0), ("source", "slow"))]
    with pytest.raises(
        PipelineError, match="reads inputs of different rates: 'source' has 1 a source frame, 'slow' has 1/2"
    ):
        plan_pipeline(Pipeline.of("x", stages), ROWS)


def test_only_sinks_may_read_what_a_selecting_stage_leaves():
    with pytest.raises(PipelineError, match="stage 'window_sum' reads 'picky', which leaves frames out"):
        plan(Picky(), WindowSum(0, 0))


@pytest.mark.requirement("A73")
def test_no_boundary_is_refused_unless_every_operator_takes_a_mask():
    with pytest.raises(PipelineError, match="reads 2 frames before and 0 after each core, but the boundary is 'none'"):
        plan(WindowSum(2, 0), boundary="none")
    assert plan(WindowSum(0, 0), boundary="none").halo == Halo()


@pytest.mark.parametrize("value", ["300", "-1", "0.5", "nan"])
def test_a_boundary_value_that_samples_cannot_hold_is_refused(value):
    with pytest.raises(PipelineError, match="reads uint8 samples, which cannot hold the boundary's") as caught:
        hf.run(np.zeros((4, 2), np.uint8), WindowSum(1, 0), boundary=f"constant:{value}")
    assert caught.value.hint == "Use a whole number from 0 to 255."


@pytest.mark.parametrize("name", ["../x", "../../etc/passwd", ".foo", "no.such.module"])
def test_odd_operator_names_are_unknown_names(name):
    with pytest.raises(RegistryError, match="no operator named"):
        Pipeline.of("x", name)


def test_a_sink_that_cannot_hold_records_is_refused(tmp_path):
    with pytest.raises(PipelineError, match="cannot hold records of 'rows'") as caught:
        hf.run(np.zeros((5, 2)), Rows(), to=str(tmp_path / "out.npy"))
    assert ".parquet" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_and_choices_are_named():
    with pytest.raises(PipelineError, match="no option named 'sizes'") as caught:
        Pipeline.of("x", [], sizes=3)
    assert caught.value.hint == "Did you mean 'size'?"
    with pytest.raises(PipelineError, match=r"scheduling_policy: expected one of fifo, .* got 'lifo'"):
        Pipeline.of("x", [], scheduling_policy="lifo")
    with pytest.raises(PipelineError, match=r"size counts the frames a hyperframe owns: .* got 0"):
        Pipeline.of("x", [], size=0)
    with pytest.raises(
        PipelineError, match=r"range: expected \(START, STOP\) with 0 <= START <= STOP, .* got \(9, 3\)"
    ):
        Pipeline.of("x", [], range=(9, 3))


@pytest.mark.parametrize("name", ["size", "workers"])
def test_a_count_that_is_an_array_is_refused_as_what_it_is(name):
    with pytest.raises(PipelineError, match=r"expected 'auto' or a whole number of at least 1, got array\(\[1, 2\]\)"):
        Pipeline.of("x", [], **{name: np.array([1, 2])})


@pytest.mark.requirement("A111")
def test_the_fingerprint_changes_with_whatever_changes_results_and_with_nothing_else():
    base = plan("temporal_mean:radius=2").fingerprint
    assert plan("temporal_mean:radius=2", size=7, workers=1, scheduling_policy="priority_by_cost").fingerprint == base
    assert plan("temporal_mean:radius=3").fingerprint != base
    assert plan("temporal_mean:radius=2", boundary="reflect").fingerprint != base
    assert plan("temporal_mean:radius=2", range=(0, 5)).fingerprint != base


def test_a_pipeline_reads_back_from_its_own_text():
    pipeline = Pipeline.of(
        {"left cam": "a.mp4", "right": "b.mp4"},
        [Stage("mean", hf.operators.create("temporal_mean:radius=2"), ("left cam",)), "every:n=5"],
        to={"mean": "out.mp4", "every": "thumbs/%06d.png"},
        size=7,
        range=(3, None),
        boundary="constant:16",
    )
    again = Pipeline.from_toml(pipeline.to_toml())
    assert again == pipeline
    assert again.to_toml() == pipeline.to_toml()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sources]\nsource = 3 4", "the configuration is not TOML: .*line 2"),
        ("[source]\nsource = 'a'", "the configuration has no 'source'; known: options, sinks, sources, stages"),
        ("[sources]\nsource='a'\n[[stages]]\nname='x'", "stage 1 of the configuration needs an operator"),
        ("[sources]\nsource='a'\n[[stages]]\nop='x'", "stage 1 of the configuration has no 'op'"),
        ("[sources]\nsource='a'\n[options]\nsizes=3", "no option named 'sizes'"),
        ("[options]\nsize=3", "the configuration needs a source"),
        ("stages='denoise'\n[sources]\nsource='a'", r"\[\[stages\]\] is a list of tables: got 'denoise'"),
        ("[sources]\nsource='a'\n[options]\nrange=[]", r"range: expected \(START, STOP\) .* got \[\]"),
        ("[sources]\nsource='a'\n[options]\nrange='0:5'", r"range: expected \(START, STOP\) .* got '0:5'"),
        ("[sources]\nsource='a'\n[options]\nmax_memory='1GB'", "max_memory counts bytes: .* got '1GB'"),
        ("[sources]\nsource='a'\n[options]\nmax_memory=-5", "max_memory counts bytes: .* got -5"),
        ("[sources]\nsource='a'\n[options]\nchecksum='yes'", "checksum: expected true or false, got 'yes'"),
        ("[sources]\nsource='a'\n[options]\nboundary=5", "boundary: expected a word, got 5"),
        ("[sources]\nsource='a'\n[options]\npixel_format=5", "pixel_format: expected a word, got 5"),
        ("stages=[1]\n[sources]\nsource='a'", "stage 1 of the configuration is a table: got 1"),
        ("[sources]\nsource='a'\n[[stages]]\noperator='every'\nname=5", "stage 1 .* expected name to be a word"),
        ("[sources]\nsource='a'\n[[stages]]\noperator='every'\ninputs='source'", "inputs a list of words"),
        ("[sources]\nsource='a'\n[options]\nexecutor=3", "executor: expected one of threads, .* got 3"),
    ],
)
def test_faults_of_a_configuration_are_named(text, message):
    with pytest.raises(PipelineError, match=message):
        Pipeline.from_toml(text)


def test_an_unknown_operator_in_a_configuration_names_the_nearest():
    with pytest.raises(RegistryError, match="no operator named 'temporal_meen'") as caught:
        Pipeline.from_toml("[sources]\nsource='a'\n[[stages]]\noperator='temporal_meen'")
    assert caught.value.hint == "Did you mean 'temporal_mean'?"


def test_the_input_is_never_the_output(tmp_path):
    clip = tmp_path / "rows.npy"
    np.save(clip, np.zeros((5, 2)))
    (tmp_path / "link.npy").symlink_to(clip)
    before = clip.read_bytes()
    with pytest.raises(PipelineError, match="is both source and sink"):
        hf.run(f"{clip}?shape=2&dtype=uint8", "temporal_mean:radius=1", to=clip)
    for sink in (clip, tmp_path / "link.npy", f"{tmp_path}/./rows.npy"):
        with pytest.raises(
            PipelineError, match=r"rows\.npy is both source and sink: it would be overwritten"
        ) as caught:
            hf.run(clip, "temporal_mean:radius=1", to=sink)
        assert caught.value.hint == "Write to another file, then move it."
    assert clip.read_bytes() == before


def test_two_sinks_on_one_path_are_refused(tmp_path):
    stages = [Stage("a", WindowSum(0, 0)), Stage("b", WindowSum(1, 0))]
    to = {"a": tmp_path / "out.npy", "b": f"{tmp_path}/x/../out.npy"}
    (tmp_path / "x").mkdir()
    with pytest.raises(PipelineError, match="two sinks write to"):
        hf.run(np.zeros((5, 2)), stages, to=to)


def test_objects_have_no_text_form():
    with pytest.raises(PipelineError, match="'source' is a ndarray, which has no text form"):
        Pipeline.of(np.zeros(3), []).to_toml()


class RowMeans(Operator):
    """Means of the first axis of each frame, whatever that is."""

    name = "row_means"

    def configure(self, inputs):
        shape = inputs[0].shapes[0]
        return Contract((Output("frames", "frames", FrameSpec.array(shape[1:], np.float64)),))

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].planes[0][...] = inputs[0].core_data.mean(axis=1)


@pytest.mark.parametrize("step", ["sobel", "temporal_mean", "select_motion", RowMeans()])
def test_results_are_laid_out_as_without_a_layout_to_work_in(step):
    frames = np.random.default_rng(0).integers(0, 256, (6, 12, 16, 3), np.uint8)
    plain, worked = hf.run(frames, step).value, hf.run(frames, step, work_layout="NCHW").value
    assert plain.spec == worked.spec
    np.testing.assert_array_equal(plain.data, worked.data)
