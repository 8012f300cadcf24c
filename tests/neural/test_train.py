"""Training: what a configuration may say, steps that go on exactly, checkpoints that run nothing, scores with intervals."""

import dataclasses
import json
import math
import pickle
import resource
import signal
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperframes.errors import CancelledError, HyperframesError, OperatorError, PipelineError, SinkError, SourceError
from hyperframes.neural.train import (
    FrameDecoder,
    TrainingConfig,
    evaluate,
    fit,
    interval,
    load_checkpoint,
    load_model,
    macro_f1,
    paired_interval,
    read_config,
    save_checkpoint,
)
from hyperframes.neural.train.scores import accuracy, confusion

pytestmark = pytest.mark.slow  # torch and lightning take seconds to import

CONFIG = """
[data]
table = "labels.csv"
groups = ["day"]
size = [16, 16]
frames = 4
flip = true
shift = 1
validation = 0.34

[model]
encoder = "mch"
options = { width = 0.125, prototypes = 2 }

[train]
steps = 4
batch = 4
warm_up = 1
validate_every = 2
views = 1
threads = 1

[monitor]
decoder = "detached"
tensorboard = false

[output]
folder = "run"
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Twelve tiny clips of two classes: a bright bar that goes down, or to the right."""
    folder = tmp_path_factory.mktemp("samples")
    rows = ["file,label,split,day"]
    random = np.random.default_rng(0)
    for i in range(16):
        clip = random.integers(0, 60, (9, 16, 16, 3)).astype(np.uint8)
        for t in range(9):
            clip[t, t : t + 3] += 150 * np.uint8(i % 2)
            clip[t, :, t : t + 3] += 150 * np.uint8(1 - i % 2)
        np.save(folder / f"{i}.npy", clip)
        rows.append(f"{i}.npy,{'down' if i % 2 else 'right'},{'train' if i < 12 else 'test'},{i // 2}")
    (folder / "labels.csv").write_text("\n".join(rows))
    return folder


def configured(samples, name, text=CONFIG):
    path = samples / f"{name}.toml"
    path.write_text(text.replace('"run"', f'"{name}"'))
    return read_config(path)


def numbers(path):
    checkpoint = load_checkpoint(path)
    return {**checkpoint.model, **checkpoint.decoder, **checkpoint.optimizer}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


# Going on -------------------------------------------------------------------------------------------------------------


def test_steps_and_their_rest_are_all_steps_bit_for_bit(samples):
    whole, parts = configured(samples, "whole"), configured(samples, "parts")
    done = fit(whole)
    first = fit(parts, steps=2)
    assert first.steps == 2
    second = fit(parts, resume=True)
    assert (done.steps, second.steps) == (4, 4)
    assert same(numbers(done.last), numbers(second.last))
    assert load_checkpoint(done.last).progress == load_checkpoint(second.last).progress


def test_the_same_seed_gives_the_same_model_and_another_seed_another(samples):
    one, two = fit(configured(samples, "one")), fit(configured(samples, "two"))
    other = fit(configured(samples, "other", CONFIG.replace("steps = 4", "steps = 4\nseed = 1")))
    assert same(numbers(one.last), numbers(two.last))
    assert not same(numbers(one.last), numbers(other.last))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(samples, number):
    config = configured(samples, f"interrupted{number.name}")

    def stop(told):
        if told["kind"] == "step" and told["step"] == 1:
            signal.raise_signal(number)

    with pytest.raises(CancelledError, match="interrupted after 1 of 4 steps") as caught:
        fit(config, observe=stop)
    assert "--resume" in caught.value.hint
    done = fit(config, resume=True)
    assert done.steps == 4
    whole = configured(samples, f"whole{number.name}", CONFIG)
    assert same(load_checkpoint(fit(whole).last).model, load_checkpoint(done.last).model)


KILLED = """
import os, signal, sys
from hyperframes.neural.train import fit, read_config
replace, left = os.replace, int(sys.argv[2])
def dying(source, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = dying
fit(read_config(sys.argv[1]))
"""


def test_a_training_killed_while_it_writes_goes_on_from_the_last_whole_checkpoint(samples):
    config = configured(samples, "killed", CONFIG.replace("validate_every = 2", "validate_every = 1"))
    asked = [sys.executable, "-c", KILLED, str(samples / "killed.toml"), "4"]  # three files a checkpoint
    assert subprocess.run(asked, capture_output=True, check=False).returncode == -signal.SIGKILL
    folder = samples / "killed"
    assert load_checkpoint(folder / "last.safetensors").step == 2
    assert len(list(folder.glob(".*.safetensors.*"))) == 1  # what it was writing
    done = fit(config, resume=True)
    assert not list(folder.glob(".*"))
    whole = configured(samples, "unkilled", CONFIG.replace("validate_every = 2", "validate_every = 1"))
    assert same(numbers(done.last), numbers(fit(whole).last))


def test_a_full_disk_ends_a_training_and_leaves_the_last_whole_checkpoint(samples):
    config = configured(samples, "full", CONFIG.replace("validate_every = 2", "validate_every = 1"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(told):
        if told["kind"] == "step" and told["step"] == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    try:
        with pytest.raises(SinkError, match=r"cannot write .*last\.safetensors: ") as caught:
            fit(config, observe=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.hint == "Make room, or name another folder."
    assert load_checkpoint(samples / "full/last.safetensors").step == 1
    assert not list((samples / "full").glob(".*"))
    whole = configured(samples, "roomy", CONFIG.replace("validate_every = 2", "validate_every = 1"))
    assert same(numbers(fit(config, resume=True).last), numbers(fit(whole).last))


def test_a_training_goes_on_from_nothing_but_its_own(samples):
    config = configured(samples, "own")
    done = fit(config, steps=2)
    kept = load_checkpoint(done.last)
    for damage, told in (
        ({"optimizer": {}}, "holds a model, but not what its training goes on with"),
        ({"model": {}}, "does not hold the model that it names"),
        ({"optimizer": {"nobody/exp_avg": torch.zeros(2)}}, "the checkpoint's optimizer does not fit the model"),
    ):
        save_checkpoint(dataclasses.replace(kept, **damage), done.last)
        with pytest.raises((PipelineError, SourceError), match=told):
            fit(config, resume=True)


def test_a_folder_with_a_training_is_not_written_over(samples):
    config = configured(samples, "twice")
    fit(config, steps=1)
    with pytest.raises(PipelineError, match="holds a training already"):
        fit(config)
    changed = dataclasses.replace(config, train=dataclasses.replace(config.train, batch=2))
    with pytest.raises(PipelineError, match=r"another configuration: train\.batch was 4, is 2"):
        fit(changed, resume=True)
    with pytest.raises(PipelineError, match="nothing to go on from"):
        fit(configured(samples, "never"), resume=True)


def test_training_ends_when_it_no_longer_gets_better(samples):
    text = CONFIG.replace("steps = 4", "steps = 40\npatience = 2\nlearning_rate = 1e-9\nfloor = 0.0")
    done = fit(configured(samples, "patient", text.replace("validate_every = 2", "validate_every = 1")))
    assert done.stopped_early
    assert done.steps == 3
    assert (
        fit(configured(samples, "patient", text.replace("validate_every = 2", "validate_every = 1")), resume=True).steps
        == 3
    )


def test_a_loss_that_runs_away_is_an_error_that_names_the_step(samples):
    text = CONFIG.replace("steps = 4", "steps = 9\nlearning_rate = 1e30\nclip = 0.0\nalpha = 0.0").replace(
        "warm_up = 1", "warm_up = 0"
    )
    with pytest.raises(OperatorError, match=r"training ran away at step \d+: the loss is (nan|inf)"):
        fit(configured(samples, "away", text))


def test_curvature_has_32_bits_in_mixed_precision(samples):
    told = []
    text = CONFIG.replace("steps = 4", 'steps = 2\nprecision = "bf16"')
    fit(configured(samples, "mixed", text), observe=told.append)
    steps = [t for t in told if t["kind"] == "step"]
    assert all(math.isfinite(t["loss"]) for t in steps)
    bits = np.float32(steps[0]["curvature"]).view(np.uint32)
    assert bits & 0xFFFF  # a bfloat16 would have 16 zeros


# Learning -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D70", "D74", "D78", "D79", "D80")
def test_a_model_learns_is_watched_and_evaluated(samples):
    told = []
    text = CONFIG.replace("steps = 4", "steps = 60\nlearning_rate = 0.01").replace(
        "validate_every = 2", "validate_every = 30"
    )
    done = fit(configured(samples, "learns", text), observe=told.append)
    watched = [t for t in told if t["kind"] == "watched"]
    assert {"macro_f1", "tge", "mcr", "fhre"} <= set(watched[-1]["scores"])
    steps = [t for t in told if t["kind"] == "step"]
    assert {"consistency", "temporal", "smoothness", "folding", "curvature_spread"} <= set(steps[-1])
    assert np.mean([t["loss"] for t in steps[-5:]]) < 0.6 * np.mean([t["loss"] for t in steps[:5]])
    assert steps[-1]["fhre"] > steps[0]["fhre"]
    assert any("FHRE" in alarm for alarm in done.alarms)
    found = evaluate(done.best)
    assert found.macro_f1 >= 0.7
    assert found.interval[0] <= found.macro_f1 <= found.interval[1]
    assert json.loads(json.dumps(found.to_json()))["samples"] == 4
    with pytest.raises(PipelineError, match="no sample is of the side 'tset'; known: test, train, validation"):
        evaluate(done.best, side="tset")


@pytest.mark.requirement("D136")
@pytest.mark.parametrize(("decoder", "reached"), [("detached", False), ("joint", True)])
def test_a_detached_decoder_leaves_the_model_alone(samples, decoder, reached):
    text = CONFIG.replace('"detached"', f'"{decoder}"').replace("steps = 4", "steps = 2")
    with_it = fit(configured(samples, f"with_{decoder}", text))
    without = fit(
        configured(samples, f"without_{decoder}", text.replace(f'"{decoder}"', '"none"').replace("clip", "clip"))
    )
    ours, plain = load_checkpoint(with_it.last).model, load_checkpoint(without.last).model
    if reached:
        assert not same(ours, plain)
    else:
        close = [torch.allclose(ours[k].float(), plain[k].float(), atol=2e-3) for k in ours]
        assert all(close)


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("sch", "width = 0.125"),
        ("hybrid", "width = 0.125"),
        ("resnet3d", "parameters = 20000"),
        ("average", "width = 0.0625"),
    ],
)
def test_every_encoder_and_baseline_can_be_trained(samples, encoder, options):
    text = CONFIG.replace('"mch"', f'"{encoder}"').replace("width = 0.125, prototypes = 2", options)
    done = fit(configured(samples, encoder, text.replace("steps = 4", "steps = 1").replace("size = [16", "size = [16")))
    model, checkpoint, _ = load_model(done.best)
    assert checkpoint.classes == ("down", "right")
    assert not model.training


def test_groups_keep_validation_apart(samples):
    from hyperframes.neural.train.tasks import read_samples

    sides = {}
    for sample in read_samples(configured(samples, "sides").data):
        sides.setdefault(sample.groups, set()).add(sample.split)
    assert all(len(found) == 1 for found in sides.values())
    assert set.union(*sides.values()) == {"train", "validation", "test"}


@pytest.mark.requirement("D114", "D115", "D116")
def test_tensorboard_shows_curvature_time_and_spread(samples):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    text = CONFIG.replace("tensorboard = false", "tensorboard = true").replace("steps = 4", "steps = 2")
    config = configured(samples, "board", text)
    fit(config)
    board = EventAccumulator(str(samples / "board/tensorboard"), size_guidance={"images": 0, "scalars": 0})
    board.Reload()
    assert {"space", "curvature", "time"} <= set(board.Tags()["images"])
    assert board.Images("time")[0].encoded_image_string.startswith(b"GIF89a")
    assert {"curvature_std", "train/loss", "watched/macro_f1", "train/fhre"} <= set(board.Tags()["scalars"])


# Checkpoints ----------------------------------------------------------------------------------------------------------


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(SourceError, match="cannot read a model from"):
        load_checkpoint(path)
    with pytest.raises(SourceError, match="no such file"):
        load_checkpoint(tmp_path / "none")


def test_a_damaged_or_foreign_checkpoint_is_told(samples, tmp_path):
    done = fit(configured(samples, "damaged", CONFIG.replace("steps = 4", "steps = 1")))
    checkpoint = load_checkpoint(done.best)
    name = next(iter(checkpoint.model))
    save_checkpoint(dataclasses.replace(checkpoint, model={name: torch.zeros(3)}), tmp_path / "short.safetensors")
    with pytest.raises(SourceError, match="does not hold the model that it names"):
        load_model(tmp_path / "short.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(done.best.read_bytes()[:-50])
    with pytest.raises(SourceError, match="cannot read a model from"):
        load_checkpoint(tmp_path / "cut.safetensors")
    config = json.loads(json.dumps(checkpoint.config))
    config["model"]["encoder"] = "vgg"
    save_checkpoint(dataclasses.replace(checkpoint, config=config), tmp_path / "vgg.safetensors")
    with pytest.raises(HyperframesError, match="no encoder named 'vgg'"):
        load_model(tmp_path / "vgg.safetensors")


def test_every_byte_of_a_checkpoint_counts(samples, tmp_path):
    whole = fit(configured(samples, "bytes", CONFIG.replace("steps = 4", "steps = 1"))).best.read_bytes()
    path = tmp_path / "flipped.safetensors"
    for place in [*np.random.default_rng(0).integers(0, len(whole), 60).tolist(), 0, 7, 8, 9, len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(SourceError, match=r"cannot read a model from|is damaged|holds no model of version"):
            load_checkpoint(path)


@pytest.mark.parametrize("header", ["[]", '{"version": 1}', '{"version": 1, "config": []}', "7", "{"])
def test_a_header_that_says_nothing_is_told(tmp_path, header):
    from safetensors.torch import save_file

    path = tmp_path / "odd.safetensors"
    save_file({"model/a": torch.zeros(1)}, path, {"hyperframes_model": header})
    with pytest.raises(SourceError, match="cannot read a model from"):
        load_checkpoint(path)


def test_the_decoder_makes_clips_of_any_size():
    for clip in ((3, 8, 64, 64), (1, 5, 24, 32), (3, 4, 20, 20)):
        made = FrameDecoder(6, (2, 4, 4), clip)(torch.zeros(2, 6, 2, 4, 4))
        assert tuple(made.shape) == (2, *clip)


# Configuration --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("steps = 4", "stepz = 4"), r"line 16: \[train\] has no 'stepz'; known: steps, batch"),
        (("steps = 4", 'steps = "many"'), 'line 16: steps: expected a whole number, got "many"'),
        (("steps = 4", "steps = 0"), "line 16: steps is from 1 to 2,147,483,647: got 0"),
        (("steps = 4", "steps = 4\nseed = 1180591620717411303424"), "seed is at most 2,147,483,647: got 1,180,591"),
        (("steps = 4", "steps = 4\nalpha = nan"), "alpha: expected a finite number, got NaN"),
        (("flip = true", "flip = true\nlimits = [0, inf]"), "limits: expected a list of finite numbers"),
        (("flip = true", "flip = true\nstride = 1000000000"), "stride is from 1 to 1,048,576: got 1,000,000,000"),
        (("threads = 1", "threads = 1000000"), "line 21: threads is at most 1,024: got 1,000,000"),
        (("views = 1", "views = 10000000"), "views is from 1 to 1,024: got 10,000,000"),
        (("[monitor]", "[loss]\nlabel_smoothing = 2.0\n[monitor]"), "label_smoothing is from 0 to below 1: got 2.0"),
        (("flip = true", "flip = 1"), "line 7: flip: expected true or false, got 1"),
        (("size = [16, 16]", "size = [16]"), r"line 5: size is \[rows, columns\]: got \[16\]"),
        (('"detached"', '"maybe"'), 'decoder: expected one of none, detached, joint, got "maybe"'),
        (("[model]", "[modle]"), r"line 11: there is no table \[modle\]"),
        (('table = "labels.csv"', ""), "name a table or a folder"),
        (("warm_up = 1", "warm_up = 9"), "line 18: warm_up is at most steps: got 9"),
        (("[data]", "data"), "is not TOML"),
    ],
)
def test_a_wrong_configuration_is_told_by_its_line(tmp_path, change, told):
    path = tmp_path / "wrong.toml"
    path.write_text(CONFIG.replace(*change))
    with pytest.raises(PipelineError, match=told) as caught:
        read_config(path)
    assert "docs/learning.md" in caught.value.hint or "Did you mean" in caught.value.hint


def test_an_option_that_an_encoder_does_not_take_is_refused(samples):
    with pytest.raises(PipelineError, match="encoder 'mch' has no option 'depht'"):
        fit(configured(samples, "option", CONFIG.replace("prototypes = 2", "depht = 2")))


def test_an_option_that_makes_no_encoder_is_told(samples):
    with pytest.raises(PipelineError, match="encoder 'mch' cannot be made: "):
        fit(configured(samples, "nowidth", CONFIG.replace("width = 0.125", "width = nan")))


@pytest.mark.parametrize(("name", "told"), [("warp", "no device is called"), ("meta", "nothing can be computed on")])
def test_a_device_that_is_not_there_is_told(samples, name, told):
    with pytest.raises(PipelineError, match=told):
        fit(configured(samples, f"on{name}", CONFIG.replace("threads = 1", f'threads = 1\ndevice = "{name}"')))


def test_a_split_that_leaves_nothing_to_train_with_is_told(samples):
    table = (samples / "labels.csv").read_text().replace("train", "test")
    (samples / "alltest.csv").write_text(table)
    with pytest.raises(PipelineError, match="no sample is left to train with: expected some of the side 'train', got"):
        fit(configured(samples, "nothing", CONFIG.replace("labels.csv", "alltest.csv").replace("0.34", "0.0")))


def test_an_output_folder_that_is_a_file_is_refused(samples, tmp_path):
    (tmp_path / "taken").touch()
    config = configured(samples, "taken")
    config = dataclasses.replace(config, output=dataclasses.replace(config.output, folder=str(tmp_path / "taken")))
    with pytest.raises(PipelineError, match="taken is a file: a training needs a folder"):
        fit(config)


def test_a_configuration_survives_the_checkpoint(samples):
    config = configured(samples, "kept")
    assert TrainingConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


# Scores ---------------------------------------------------------------------------------------------------------------


def test_macro_f1_is_the_mean_over_classes():
    truth, answers = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 0])
    assert confusion(truth, answers, 3).tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert macro_f1(truth, answers, 3) == pytest.approx((2 / 4 + 4 / 5 + 0) / 3)
    assert macro_f1(truth, answers, 9) == macro_f1(truth, answers, 3)
    assert accuracy(truth, answers) == 0.6


def test_intervals_draw_whole_units():
    truth = np.tile([0, 1], 50)
    good, bad = truth.copy(), truth.copy()
    bad[::4] = 1 - bad[::4]
    units = [f"{i // 10}" for i in range(100)]
    low, high = paired_interval(truth, good, bad, 2, units, draws=200)
    assert 0 < low <= 1 - macro_f1(truth, bad, 2) <= high
    assert paired_interval(truth, good, good, 2, units, draws=50) == (0, 0)
    one = ["only"] * 100
    low, high = interval(truth, bad, 2, one, draws=50)
    assert low == high == pytest.approx(macro_f1(truth, bad, 2))


# What ships -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shipped():
    with as_file(files("hyperframes") / "data/edh_nmnist.safetensors") as path:
        yield path


def test_the_weights_that_ship_answer_and_name_no_place_of_the_machine_that_made_them(shipped):
    model, checkpoint, config = load_model(shipped)
    assert checkpoint.classes == tuple("0123456789")
    assert not checkpoint.optimizer
    assert not [value for value in (config.data.table, config.data.root, config.output.folder) if value.startswith("/")]
    with torch.inference_mode():
        assert torch.isfinite(model(torch.zeros(2, 2, config.data.bins, *config.data.size))).all()


@pytest.mark.media
def test_the_weights_that_ship_do_what_their_card_says(shipped, media):
    config = load_model(shipped)[2]
    there = dataclasses.replace(
        config, data=dataclasses.replace(config.data, table=str(media / "events/nmnist/labels.csv"))
    )
    found = evaluate(shipped, config=there)
    card = (Path(__file__).parents[2] / "docs/models.md").read_text()
    low, high = found.interval
    assert (
        f"| macro-F1 | {100 * found.macro_f1:.1f} (95 % interval of recordings drawn anew: {100 * low:.1f} to {100 * high:.1f})"
        in card
    )
