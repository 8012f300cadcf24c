"""Models that users have: flow, faces, maps and refiners take the place of our own, and say so in descriptors."""

import dataclasses
import json
import pickle
import struct

import cv2
import numpy as np
import pytest
from tests.operators.onnx_files import model_file
from tests.semantic.scenes import footage, moving, panning, still

import hyperframes as hf
from hyperframes import registry
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import Contract, Operator, Output
from hyperframes.pipeline import Pipeline
from hyperframes.semantic import Anchors, Mask, find_anchors
from hyperframes.semantic.faces import Faces
from hyperframes.semantic.flow_model import FlowModel
from hyperframes.sinks import MemorySink

FILM = footage(moving(1, 40, 2), panning(2, 40))


def picture_file(path):
    """A model that gives back its picture."""
    return model_file(path, [("Identity", ["x"], ["y"])], [("x", (1, 3, 8, 8))], [("y", (1, 3, 8, 8))])


def flow_file(path, channels=3, names=("before", "after"), outputs=2):
    """A model of flow: right by the difference of the means of both pictures, down by half of that."""
    inputs = [(name, (1, channels, "h", "w")) for name in names]
    nodes = [
        *(("ReduceMean", [name], [f"{name}_mean"], {"axes": [1], "keepdims": 1}) for name in names),
        ("Sub", [f"{names[1]}_mean", f"{names[0]}_mean"], ["right"]),
        ("Mul", ["right", "half"], ["down"]),
        ("Concat", ["right", "down"] if outputs == 2 else ["right"] * outputs, ["flow"], {"axis": 1}),
    ]
    return model_file(path, nodes, inputs, [("flow", (1, outputs, "h", "w"))], [("half", [0.5], [1])])


@pytest.mark.requirement("C33", "C47")
@pytest.mark.parametrize("channels", [1, 3])
def test_a_model_of_flow_gives_flow_in_pixels_of_the_pictures(tmp_path, channels):
    model = FlowModel(flow_file(tmp_path / "raft.onnx", channels))
    before, after = np.full((45, 160), 20, np.uint8), np.full((45, 160), 28, np.uint8)
    flow = model.calc(before, after)
    assert flow.shape == (45, 160, 2)
    np.testing.assert_allclose(flow[..., 0], 8 * 160 / 160, rtol=1e-5)  # 160 is a multiple of 8 as it is
    np.testing.assert_allclose(flow[..., 1], 4 * 45 / 128, rtol=1e-5)  # 45 rows are stretched to 128


@pytest.mark.requirement("C33", "C9")
def test_flow_of_a_model_takes_the_place_of_ours_and_is_noted(tmp_path):
    path = flow_file(tmp_path / "raft.onnx")
    plain, other = (list(hf.describe(FILM, detector=None, flow=f)) for f in (None, path))
    assert "flow" not in plain[0].models
    assert other[0].models["flow"].startswith("raft.onnx ")
    assert plain[0].parameters != other[0].parameters
    assert not np.array_equal(plain[0].semantic_features[128:256], other[0].semantic_features[128:256])
    found = find_anchors(FILM, anchors=Anchors(flow=path))
    assert len(found.weights) == len(FILM)


def test_what_is_no_model_of_flow_is_refused(tmp_path):
    one = picture_file(tmp_path / "one.onnx")
    with pytest.raises(PipelineError, match=r"one\.onnx is no model of flow: expected two inputs"):
        FlowModel(one)
    three = FlowModel(flow_file(tmp_path / "three.onnx", outputs=3))
    with pytest.raises(PipelineError, match=r"gives no flow: expected an output \(1, 2, height, width\)"):
        three.calc(np.zeros((16, 16), np.uint8), np.zeros((16, 16), np.uint8))
    with pytest.raises(PipelineError, match="expected a readable file for model, got"):
        Anchors(flow=str(tmp_path / "none.onnx"))


# Faces


def face_file(path, found):
    """A YuNet-like model of 64 x 64 that finds the same whatever it sees: {(stride, cell): (score, 4 numbers)}."""
    constants, outputs, nodes = [], [], []
    for stride in (8, 16, 32):
        n = (64 // stride) ** 2
        for part, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            values = np.zeros((n, width), np.float32)
            for (at, cell), (score, box) in found.items():
                if at == stride and part != "kps":
                    values[cell] = box if part == "bbox" else score
            constants.append((f"{part}_{stride}_c", values.ravel().tolist(), [1, n, width]))
            nodes.append(("Add", [f"{part}_{stride}_c", "nothing"], [f"{part}_{stride}"]))
            outputs.append((f"{part}_{stride}", (1, n, width)))
    nodes.insert(0, ("ReduceMean", ["input"], ["mean"], {"axes": [1, 2, 3], "keepdims": 0}))
    nodes.insert(1, ("Mul", ["mean", "zero"], ["nothing"]))
    return model_file(path, nodes, [("input", (1, 3, 64, 64))], outputs, [*constants, ("zero", [0.0], [1])])


FOUND = {(16, 5): (0.81, [0.5, 0.5, np.log(1.5), np.log(2.0)]), (8, 0): (0.36, [0.0, 0.0, 0.0, 0.0])}


@pytest.mark.requirement("C17")
def test_faces_are_boxes_of_a_class_of_their_own(tmp_path):
    model = face_file(tmp_path / "yunet.onnx", FOUND)
    out = MemorySink()
    hf.run(Pipeline.of(hf.open(np.zeros((3, 32, 64, 3), np.uint8)), [Faces(model)], out))
    boxes = out.result.data
    assert (boxes[:, 1:, 4] == 0).all()  # 0.36 is below the threshold
    left, top, right, bottom, score, kind = boxes[0, 0]
    # Cell 5 of 4 x 4 is row 1, column 1: the middle is (1.5, 1.5) * 16 = 24 of 64, 24 wide and 32 high.
    assert (score, kind) == (pytest.approx(0.81), 80)
    assert (left, top, right, bottom) == pytest.approx((12 / 64, 8 / 64, 36 / 64, 40 / 64))


def test_faces_matter_and_tasks_may_look_at_them_alone(tmp_path):
    model = face_file(tmp_path / "yunet.onnx", FOUND)
    frames = np.repeat(footage(still(1, 24))[..., None], 3, axis=3)
    (made, *_) = hf.describe(frames, detector=None, faces=model, masks={"masks worn": Mask(classes=("face",))})
    face = made.confidence("masks worn")
    assert face[24, 24] == pytest.approx(0.81, abs=0.01)
    assert not face[50:].any()
    assert made.region_confidence[24, 24] >= face[24, 24] - 0.01
    assert made.feature_parts[0] is False  # no detector of COCO
    assert made.models["faces"].startswith("yunet.onnx ")
    with pytest.raises(PipelineError, match="is no YuNet detector: expected outputs cls_8"):
        Faces(picture_file(tmp_path / "p.onnx")).configure((FrameSpec.picture(8, 8, "rgb24"),))


def test_opencv_reads_the_same_faces_out_of_such_a_file(tmp_path):
    model = face_file(tmp_path / "yunet.onnx", FOUND)
    detector = cv2.FaceDetectorYN.create(model, "", (64, 64), 0.6)
    _, found = detector.detect(np.zeros((64, 64, 3), np.uint8))
    assert found is not None
    x, y, w, h, *_, score = found[0]
    assert (x, y, x + w, y + h, score) == pytest.approx((12, 8, 36, 40, 0.81), abs=0.01)


# Maps and refiners


@dataclasses.dataclass(frozen=True)
class Corner(Operator):
    """The upper left corner matters."""

    name = "corner"

    def configure(self, inputs):
        return Contract((Output("maps", "frames", FrameSpec.array((64, 64), np.float32)),))

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[...] = 0
        outputs[0].data[:, :16, :16] = 1


@pytest.mark.requirement("C67", "C72")
def test_another_operator_may_say_where_something_matters():
    (made, *_) = hf.describe(FILM, detector=None, regions=Corner())
    assert (made.region_confidence[:16, :16] == 1).all()
    assert not made.region_confidence[16:].any()
    assert made.models["regions"].startswith("corner ")


@pytest.fixture
def refiner(tmp_path, monkeypatch):
    """Weights of a made net that weighs a frame by its share of the clip's greatest motion, and what it was given."""
    header = {"kind": "anchor_refiner", "length": 16, "channels": 1, "outputs": {"weights": [16]}}
    text = json.dumps({"__metadata__": {"hyperframes_network": json.dumps(header)}}).encode()
    path = tmp_path / "refiner.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    given = []

    def weigh(rows, output):
        assert output == "weights"
        given.append(rows)
        return (rows[:, 0] / max(1e-6, rows.max())) ** 2

    networks = registry.Registry("network", group="hyperframes.none")
    networks.register("anchor_refiner", lambda path: weigh)
    monkeypatch.setattr(registry, "networks", networks)
    return str(path), given


@pytest.mark.requirement("C37", "C45", "C46", "C48", "C49", "C122")
def test_a_trained_refiner_says_what_candidates_weigh_and_sees_no_others(refiner):
    path, given = refiner
    film = footage(moving(1, 60, 2), still(3, 60))
    plain, learned = find_anchors(film), find_anchors(film, anchors=Anchors(refiner=path))
    assert 0 < len(given) < len(film) * 0.7  # nothing is asked of what rests
    assert all(rows.shape == (16, 1) and rows.dtype == np.float32 for rows in given)
    assert not np.array_equal(plain.weights, learned.weights)
    np.testing.assert_array_equal(learned.weights[70:], plain.weights[70:])
    assert ((learned.weights >= 0) & (learned.weights <= 1)).all()
    several = find_anchors(film, anchors=Anchors(refiner=path), size=7)
    np.testing.assert_array_equal(several.weights, learned.weights)


def test_a_refiner_is_noted_and_told_apart_by_its_numbers(refiner, tmp_path):
    path, _ = refiner
    (made, *_) = hf.describe(FILM, detector=None, anchors=Anchors(refiner=path))
    assert made.models["refiner"].startswith("refiner.safetensors ")
    assert Anchors(refiner=path).version != Anchors().version
    assert pickle.loads(pickle.dumps(Anchors(refiner=path))) == Anchors(refiner=path)
    with pytest.raises(PipelineError, match="weights: expected a file of weights, got"):
        Anchors(refiner=str(tmp_path / "none"))
