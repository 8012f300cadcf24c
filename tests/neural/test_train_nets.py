"""The small nets learn what they are shown, and operators compute with what training leaves."""

import numpy as np
import pytest
import torch
from tests.cli.conftest import write_clip
from tests.index.library import span

import hyperframes as hf
from hyperframes import neural
from hyperframes.errors import PipelineError, SourceError
from hyperframes.neural.train import fit, load_checkpoint, load_model, read_config
from hyperframes.neural.train.config import TrainingConfig
from hyperframes.neural.train.nets import Anchors, Project, alikeness
from hyperframes.semantic import save

pytestmark = pytest.mark.slow  # torch and lightning take seconds to import


def trained(folder, text, **more):
    path = folder / "train.toml"
    path.write_text(text)
    return fit(read_config(path), **more)


REGIONS = """
[data]
table = "labels.csv"
size = [32, 64]
boxes = "boxes.csv"
flip = true
validation = 0.25
[model]
task = "regions"
options = { width = 0.5 }
[train]
steps = 60
batch = 4
learning_rate = 0.01
warm_up = 1
validate_every = 30
threads = 1
[monitor]
tensorboard = false
[output]
folder = "run"
"""


@pytest.fixture
def squares(tmp_path):
    """Clips of a bright square on noise, with its box in every frame."""
    random = np.random.default_rng(0)
    labels, boxes = ["file,label,split"], ["file,frame,left,top,right,bottom"]
    for i in range(8):
        clip = random.integers(0, 80, (4, 32, 64, 3)).astype(np.uint8)
        x, y = random.integers(0, 44), random.integers(0, 18)
        for t in range(4):
            clip[t, y : y + 12, x + t : x + t + 16] = 230
            boxes.append(f"{i}.npy,{t},{(x + t) / 64},{y / 32},{(x + t + 16) / 64},{(y + 12) / 32}")
        np.save(tmp_path / f"{i}.npy", clip)
        labels.append(f"{i}.npy,thing,train")
    (tmp_path / "labels.csv").write_text("\n".join(labels))
    (tmp_path / "boxes.csv").write_text("\n".join(boxes))
    return tmp_path


@pytest.mark.requirement("C74")
def test_the_region_net_learns_maps_of_boxes_and_its_operator_draws_them(squares):
    done = trained(squares, REGIONS)
    assert done.scores["overlap"] > 0.5
    made = hf.run(str(squares / "0.npy"), f"region_net:weights={squares / 'run/weights.safetensors'}").array
    assert made.shape == (4, 64, 64)
    left, top, right, bottom = (float(v) for v in (squares / "boxes.csv").read_text().splitlines()[1].split(",")[2:])
    inside = made[0, int(top * 64) : int(bottom * 64), int(left * 64) : int(right * 64)]
    assert inside.mean() > 3 * made[0].mean()


def test_region_nets_go_on_exactly_too(squares):
    short = REGIONS.replace("steps = 60", "steps = 4").replace("validate_every = 30", "validate_every = 2")
    whole = load_checkpoint(trained(squares, short).last)
    other = short.replace('"run"', '"parts"')
    trained(squares, other, steps=2)
    parts = load_checkpoint(trained(squares, other, resume=True).last)
    assert all(torch.equal(whole.model[name], parts.model[name]) for name in whole.model)


def test_what_is_no_classifier_is_not_evaluated_as_one(squares):
    done = trained(squares, REGIONS.replace("steps = 60", "steps = 1"))
    with pytest.raises(SourceError, match="holds no classifier: it was trained for regions"):
        load_model(done.best)
    with pytest.raises(PipelineError, match="learns from boxes or from a detector"):
        trained(squares, REGIONS.replace('boxes = "boxes.csv"', "").replace('"run"', '"b"'))


@pytest.fixture
def jumps(tmp_path):
    """Clips in which a bar jumps at frames that are marked, and drifts otherwise."""
    labels, marks = ["file,label,split"], ["file,frame"]
    random = np.random.default_rng(1)
    for i in range(8):
        frames = np.full((24, 32, 64), 40, np.uint8)
        place = 5
        jump = set(random.choice(np.arange(3, 22), 2, replace=False).tolist())
        for t in range(24):
            place += 17 if t in jump else 0
            frames[t, :, place % 56 : place % 56 + 8] = 220
        marks += [f"{i}.mp4,{t}" for t in sorted(jump)]
        write_clip(tmp_path / f"{i}.mp4", frames)
        labels.append(f"{i}.mp4,any,train")
    (tmp_path / "labels.csv").write_text("\n".join(labels))
    (tmp_path / "anchors.csv").write_text("\n".join(marks))
    return tmp_path


ANCHORS = REGIONS.replace('boxes = "boxes.csv"', 'anchors = "anchors.csv"\nframes = 12').replace('"regions"', '"anchors"').replace(
    "width = 0.5", "hidden = 64"
)  # fmt: skip


@pytest.mark.requirement("C45", "C48", "C51")
def test_the_refiner_learns_what_matters_and_its_operator_takes_rows_as_they_are(jumps):
    done = trained(jumps, ANCHORS)
    assert done.scores["f1"] > 0.6
    weights = jumps / "run/weights.safetensors"
    made = hf.run(str(jumps / "0.mp4"), ["activity", f"refine_anchors:weights={weights}"]).array
    assert made.shape == (2, 12)
    config = read_config(jumps / "train.toml")
    task = Anchors(config, torch.device("cpu"))
    task.model.load_state_dict(load_checkpoint(done.best).model)
    index = next(i for i, s in enumerate(task._train + task._watched) if len(s[0]))
    motion, _ = task._window((task._train + task._watched)[index], 0)
    rows = torch.from_numpy((motion.numpy() * task._spread + task._mean).astype(np.float32))
    scaled = torch.sigmoid(task.model.intervals(motion[None]))
    torch.testing.assert_close(torch.sigmoid(task.network().intervals(rows[None])), scaled, atol=1e-4, rtol=1e-3)


@pytest.mark.requirement("C85")
def test_alikeness_ignores_order_and_sign_of_columns():
    m = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    mixed = m[:, :, [2, 0, 3, 1]] * torch.tensor([1, -1, -1, 1])
    torch.testing.assert_close(alikeness(m, mixed), torch.ones(2))
    e = torch.eye(6)
    assert alikeness(e[None, :, :2], e[None, :, 2:4]).item() == 0


@pytest.mark.requirement("C85", "C87")
def test_the_generator_learns_the_tasks_it_is_shown(tmp_path):
    random = np.random.default_rng(2)
    rows = ["file,label,split,task"]
    for task in range(3):
        for label in ("good", "bad"):
            described = []
            for _ in range(6):
                features = random.normal(0, 0.05, 512).astype(np.float32)
                features[task] += 1.0 if label == "good" else -1.0
                described.append(span(semantic_features=features))
            save(described, tmp_path / f"{task}_{label}.arrow")
            rows.append(f"{task}_{label}.arrow,{label},train,find {task}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    config = TrainingConfig.from_json(
        {
            "data": {"table": str(tmp_path / "labels.csv"), "groups": ["task"], "validation": 0.0},
            "model": {"task": "projection", "options": {"rank": 4}},
        }
    )
    vectors = {f"find {i}": np.eye(384)[i] for i in range(3)}
    task = Project(config, torch.device("cpu"), encode=lambda texts: np.stack([vectors[t] for t in texts]))
    optimizer = torch.optim.Adam(task.model.parameters(), 1e-2)
    for step in range(60):
        scored = task.scored(task.batch(step))
        optimizer.zero_grad()
        scored.loss.backward()
        optimizer.step()
    assert scored.loss.item() < 0.05
    made = neural.ProjectionGenerator.forward(task.model, torch.eye(384)[:1])[0]
    assert made.square().sum(1).argmax().item() == 0
