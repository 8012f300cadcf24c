"""Model files on frames, against a plain loop over pictures that PyAV decodes."""

import json
import sys

import av
import cv2
import numpy as np
import pytest
from tests.operators import onnx_files as files

import hyperframes as hf
from hyperframes.errors import FrameError, MissingExtraError, PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import create
from hyperframes.operators.onnx import Onnx
from hyperframes.testing.operators import random_planes, run_split, run_whole

RGB = FrameSpec.picture(8, 12, "rgb24")
PTS = np.arange(7)


def frames_of(spec, count=7, seed=3):
    return random_planes(spec, count, seed)


def test_each_frame_gives_one_record_with_a_field_an_output(tmp_path):
    planes = frames_of(RGB)
    (found,) = run_whole(Onnx(files.means(tmp_path / "m.onnx"), scale=1.0), planes, PTS, RGB).values()
    assert {name: column.shape for name, column in found.columns.items()} == {"mean": (7, 3), "most": (7, 3, 4, 6)}
    np.testing.assert_allclose(found.columns["mean"], planes[0].mean((1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(found.index, PTS)


@pytest.mark.requirement("B43")
@pytest.mark.parametrize("batch", [1, 2, 3, 8])
def test_hyperframes_are_cut_and_filled_up_to_what_the_model_takes_at_once(tmp_path, batch):
    planes = frames_of(RGB)
    wanted = run_whole(Onnx(files.means(tmp_path / "free.onnx")), planes, PTS, RGB)["records"]
    fixed = Onnx(files.means(tmp_path / "fixed.onnx", batch=batch))
    for size in (1, 2, 5, 7):
        found = run_split(fixed, planes, PTS, RGB, size=size)["records"]
        for name, column in wanted.columns.items():
            np.testing.assert_array_equal(found.columns[name], column)


@pytest.mark.requirement("B79")
def test_frames_that_are_not_real_are_not_computed(tmp_path):
    from dataclasses import replace

    from hyperframes.operators import View, Worker
    from hyperframes.packing import Halo, view

    operator = Onnx(files.means(tmp_path / "m.onnx"), batch=4)
    contract = operator.configure((RGB,))
    (hyperframe,) = view(frames_of(RGB), PTS, RGB, 7, Halo())
    mask = np.array([True, True, False, True, False, False, True])
    written = View(contract.outputs[0], 0, 7)
    operator.apply((replace(hyperframe, mask=mask),), (written,), None, operator.prepare(Worker()))
    ((_, _, columns, _),) = written.rows
    assert (columns["mean"].any(axis=1) == mask).all()


@pytest.mark.requirement("X8")
def test_samples_are_scaled_and_channels_ordered_as_parameters_say(tmp_path):
    path = files.identity(tmp_path / "m.onnx")
    planes = frames_of(RGB)
    operator = Onnx(path, kind="frames", scale=2.0, mean=(1.0, 2.0, 3.0), std=(4.0,), channels="bgr")
    found = run_whole(operator, planes, PTS, RGB)["y"]
    wanted = (planes[0][..., ::-1].transpose(0, 3, 1, 2) * 2.0 - np.array([1, 2, 3])[:, None, None]) / 4.0
    np.testing.assert_array_equal(found.data, wanted.astype(np.float32))


def test_what_parameters_leave_open_comes_from_the_models_metadata_else_from_zero_to_one(tmp_path):
    planes = frames_of(RGB)
    told = {"scale": "1", "mean": "127, 127, 127", "std": "[128]", "channels": "BGR"}
    with_metadata = Onnx(files.means(tmp_path / "told.onnx", metadata=told), outputs=("mean",))
    by_hand = Onnx(files.means(tmp_path / "plain.onnx"), ("mean",), "auto", 1.0, (127.0,), (128.0,), "bgr")
    plain = Onnx(files.means(tmp_path / "plain.onnx"), outputs=("mean",))
    one, other, unit = (run_whole(o, planes, PTS, RGB)["records"].columns for o in (with_metadata, by_hand, plain))
    np.testing.assert_array_equal(one["mean"], other["mean"])
    np.testing.assert_allclose(unit["mean"], planes[0].mean((1, 2)) / 255, rtol=1e-6)


@pytest.mark.requirement("X9")
def test_pictures_are_scaled_to_the_models_size(tmp_path):
    planes = frames_of(RGB)
    path = files.model_file(
        tmp_path / "m.onnx", [("Identity", ["x"], ["y"])], [("x", ("n", 3, 4, 6))], [("y", ("n", 3, 4, 6))]
    )
    found = run_whole(Onnx(path, kind="frames", scale=1.0, interpolation="area"), planes, PTS, RGB)["y"].data
    wanted = [cv2.resize(frame, (6, 4), interpolation=cv2.INTER_AREA).transpose(2, 0, 1) for frame in planes[0]]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_arrays_of_the_models_own_shape_go_in_as_they_are(tmp_path):
    spec = FrameSpec.array((3, 4, 6), "f4")
    planes = frames_of(spec)
    operator = Onnx(files.identity(tmp_path / "m.onnx", ("n", 3, 4, 6)), kind="frames")
    np.testing.assert_array_equal(run_whole(operator, planes, PTS, spec)["y"].data, planes[0])


def test_pictures_of_bytes_come_out_as_pictures(tmp_path):
    path = files.identity(tmp_path / "m.onnx", ("n", "h", "w", 3), element=2)
    planes = frames_of(RGB)
    found = run_whole(Onnx(path, kind="frames"), planes, PTS, RGB)["y"]
    np.testing.assert_array_equal(found.data, planes[0])
    assert found.spec.pixel_format == "rgb24"


@pytest.mark.requirement("B19")
@pytest.mark.parametrize("hop", [1, 2, 3])
def test_models_that_read_several_frames_give_windows(tmp_path, hop):
    gray = FrameSpec.picture(4, 6, "gray")
    planes = frames_of(gray)
    operator = Onnx(files.differences(tmp_path / "m.onnx", 3), scale=1.0, hop=hop, batch=2)
    for size in (1, 4, 7):
        found = run_split(operator, planes, PTS, gray, size=size)["y"].data[:, 0]
        padded = np.concatenate([planes[0], planes[0][-1:], planes[0][-1:]]).astype(np.float64)
        wanted = [padded[start : start + 3].mean(0) for start in range(0, 7, hop)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_another_file_under_the_same_name_is_another_operator(tmp_path):
    one = Onnx(files.means(tmp_path / "m.onnx"))
    other = Onnx(files.means(tmp_path / "m.onnx", batch=2))
    assert one == other
    assert one.version != other.version


def test_its_parameters_can_be_written_as_text(tmp_path):
    path = files.means(tmp_path / "m.onnx")
    operator = create(f"onnx:model={path},scale=1,mean=127/1/2,std=128,outputs=mean/most,batch=2")
    assert operator == Onnx(path, ("mean", "most"), "auto", 1.0, (127.0, 1.0, 2.0), (128.0,), batch=2)


# What is refused ------------------------------------------------------------------------------------------------------


def refusal(spec=RGB, **parameters):
    with pytest.raises(PipelineError) as caught:
        Onnx(**parameters).configure((spec,))
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x08" + bytes(range(200))])
def test_a_damaged_model_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "bad.onnx").write_bytes(content)
    sentence, hint = refusal(model=str(tmp_path / "bad.onnx"))
    assert "bad.onnx is no model that ONNX Runtime" in sentence
    assert "\n" not in sentence
    assert "export it again" in hint


def test_a_cut_off_model_is_refused(tmp_path):
    whole = (tmp_path / "m.onnx", files.means(tmp_path / "m.onnx"))[0].read_bytes()
    (tmp_path / "m.onnx").write_bytes(whole[: len(whole) // 2])
    sentence, _ = refusal(model=str(tmp_path / "m.onnx"))
    assert "is no model" in sentence


def test_a_model_that_is_not_there_is_refused_by_name():
    sentence, hint = refusal(model="nowhere/m.onnx")
    assert (
        sentence == "operator 'onnx': expected a readable file for model, got nowhere/m.onnx: no such file or directory"
    )
    assert hint == "Name a model file: --model FILE.onnx"


def test_models_that_do_not_read_pictures_are_refused(tmp_path):
    text = files.identity(tmp_path / "text.onnx", ("n", "length"))
    assert "does not read pictures: expected one input" in refusal(model=text)[0]
    planes = files.identity(tmp_path / "five.onnx", ("n", 5, 8, 8))
    assert "expected 1 or 3 channels, got ('n', 5, 8, 8)" in refusal(model=planes)[0]
    endless = files.identity(tmp_path / "endless.onnx", ("n", "t", 3, 8, 8))
    assert "does not say how many frames it reads" in refusal(model=endless)[0]


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"outputs": ("scores",)}, "has no output 'scores': expected one of mean, most"),
        ({"kind": "windows"}, "reads one frame at a time: expected kind records or frames, got windows"),
        ({"batch": -1}, "batch is a whole number: expected 0 to 4096, got -1"),
        ({"std": (0.0,)}, "expected numbers above 0 for std, got (0.0,)"),
        ({"mean": (1.0, 2.0)}, "expected 1 or 3 numbers for mean, one a channel of the model m.onnx, got 2"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(tmp_path, parameters, wanted):
    assert wanted in refusal(model=files.means(tmp_path / "m.onnx"), **parameters)[0]


def test_a_batch_other_than_the_models_is_refused(tmp_path):
    sentence, hint = refusal(model=files.means(tmp_path / "m.onnx", batch=4), batch=3)
    assert "takes 4 at once: expected batch=4, got 3" in sentence
    assert "Leave batch out" in hint


def test_metadata_that_makes_no_sense_is_refused(tmp_path):
    sentence, hint = refusal(model=files.means(tmp_path / "m.onnx", metadata={"std": "zero"}))
    assert "the metadata of the model m.onnx has std 'zero': expected numbers" in sentence
    assert hint == "Say what they are: std=0.5"
    sentence, _ = refusal(model=files.means(tmp_path / "o.onnx", metadata={"channels": "xyz"}))
    assert "channels 'xyz': expected rgb or bgr" in sentence


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    sentence, hint = refusal(FrameSpec.array((3,), "f4"), model=files.means(tmp_path / "m.onnx"))
    assert "reads pictures, or arrays" in sentence
    assert hint


def test_results_without_a_place_for_each_frame_are_refused(tmp_path):
    path = files.model_file(
        tmp_path / "m.onnx",
        [("ReduceMean", ["x"], ["all"], {"axes": [0, 1, 2, 3], "keepdims": 1})],
        [("x", (4, 3, "h", "w"))],
        [("all", (1, 1, 1, 1))],
    )
    sentence, hint = refusal(model=path)
    assert "output 'all' of the model m.onnx has no results a frame: expected shape (4, ...)" in sentence
    assert "outputs=" in hint


def test_results_that_change_their_shape_end_the_run(tmp_path):
    path = files.model_file(
        tmp_path / "m.onnx",
        [("NonZero", ["x"], ["where"])],
        [("x", (4, 1, 2, 2))],
        [("where", (4, "k"), 7)],
    )
    gray = FrameSpec.picture(2, 2, "gray")
    with pytest.raises(FrameError, match="changed its shape"):
        run_whole(Onnx(path), (np.ones((4, 2, 2), np.uint8),), np.arange(4), gray)


def test_without_onnx_runtime_the_extra_is_named(tmp_path, monkeypatch):
    path = files.means(tmp_path / "never-loaded.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="running a model file needs the 'semantic' extra"):
        Onnx(path)


# Real models ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def models(media):
    return media.parent / "models"


def pictures(path, count):
    with av.open(str(path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number == count:
                return
            yield frame.to_ndarray(format="rgb24", threads=1)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.requirement("B43")
@pytest.mark.parametrize(("batch", "size"), [(0, 5), (4, 3), (1, 12)])
def test_a_real_classifier_gives_what_a_plain_loop_gives(media, models, batch, size):
    import onnxruntime

    path, clip = models / "efficientnet-lite0.onnx", media / "video/carphone_pristine.mp4"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = []
    for picture in pictures(clip, 12):
        small = cv2.resize(picture, (224, 224), interpolation=cv2.INTER_LINEAR_EXACT)
        row = ((small.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None]
        wanted.append(session.run(["logits", "embedding"], {"images": row}))
    operator = Onnx(
        str(path), ("logits", "embedding"), "auto", 1.0, (127.0,), (128.0,), interpolation="linear", batch=batch
    )
    found = hf.run(clip, operator, size=size, range=(0, 12)).value
    np.testing.assert_array_equal(found.columns["logits"], np.concatenate([logits for logits, _ in wanted]))
    np.testing.assert_array_equal(found.columns["embedding"], np.concatenate([vector for _, vector in wanted]))


@pytest.mark.media
@pytest.mark.slow
def test_a_real_detector_gives_what_a_plain_loop_gives(media, models):
    import onnxruntime

    path, clip = models / "nanodet-416.onnx", media / "video/example_video.mp4"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    mean, std = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)
    operator = Onnx(str(path), ("Identity_2", "Identity_5"), "auto", 1.0, mean, std, "bgr", "area")
    found = hf.run(clip, operator, size=4, range=(0, 6)).value
    for number, picture in enumerate(pictures(clip, 6)):
        small = cv2.resize(picture, (416, 416), interpolation=cv2.INTER_AREA)[..., ::-1]
        row = ((small.astype(np.float64) - mean) / std).astype(np.float32).transpose(2, 0, 1)[None]
        for name, value in zip(
            ("Identity_2", "Identity_5"), session.run(["Identity_2", "Identity_5"], {"input_1": row}), strict=True
        ):
            np.testing.assert_array_equal(found.columns[name][number], value[0])


@pytest.mark.media
@pytest.mark.slow
def test_the_command_line_runs_a_model_file(media, models, tmp_path):
    from hyperframes.cli import _show
    from hyperframes.cli._app import app

    out = tmp_path / "out.jsonl"
    given = f"{models / 'efficientnet-lite0.onnx'}:scale=1,mean=127,std=128,outputs=logits"
    arguments = [str(media / "video/carphone_pristine.mp4"), str(out), "--model", given, "--range", "0:3", "--quiet"]
    assert _show.exit_code_of(app, ["run", *arguments]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["frame"] for row in rows] == [0, 1, 2]
    assert len(rows[0]["logits"]) == 1000
