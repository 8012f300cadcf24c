"""Region net, refiner, generator, and their files: shapes, limits, and operators that give what the networks do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.drivers.live_runs import Run, picture
from tests.neural.networks import networks
from torch.autograd import gradcheck

import hyperframes as hf
from hyperframes import neural, registry
from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.neural import export as export_module
from hyperframes.neural.export import export
from hyperframes.operators.learned import Mch


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return networks(tmp_path_factory.mktemp("weights"))


# Networks -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("W7")
@pytest.mark.requirement("C67")
@pytest.mark.requirement("C68")
@pytest.mark.requirement("C69")
@pytest.mark.requirement("C70")
@pytest.mark.requirement("C71")
@pytest.mark.requirement("C72")
def test_a_region_net_goes_down_four_stages_and_up_two_beside_what_it_saw():
    torch.manual_seed(0)
    net = neural.RegionUNet()
    seen = []
    for stage in (*net.down, *net.up):
        stage.register_forward_hook(
            lambda _, given, made: seen.append((tuple(given[0].shape[1:]), tuple(made.shape[1:])))
        )
    out = net(torch.rand(2, 3, 256, 448))
    assert out.shape == (2, 1, 64, 64)
    assert bool(((out >= 0) & (out <= 1)).all())
    assert [made for _, made in seen] == [
        (16, 256, 448),
        (32, 128, 224),
        (64, 64, 112),
        (128, 32, 56),
        (64, 32, 56),
        (32, 64, 112),
    ]
    assert [given[0] for given, _ in seen[4:]] == [256, 128]


@pytest.mark.requirement("C73")
def test_a_region_net_of_any_size_has_as_many_parameters():
    sizes = [neural.baselines.num_parameters(neural.RegionUNet(size=size)) for size in ((192, 320), (320, 512))]
    assert sizes[0] == sizes[1]
    with pytest.raises(FrameError, match="multiples of 16"):
        neural.RegionUNet(size=(100, 100))


@pytest.mark.slow
def test_a_region_net_learns_where_a_bright_spot_is():
    torch.manual_seed(0)
    net = neural.RegionUNet(1, 0.5, size=(32, 32))
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(4, 28, (16, 2), generator=generator)
    pictures = torch.rand(16, 1, 32, 32, generator=generator) * 0.3
    maps = torch.zeros(16, 1, 64, 64)
    for i, (y, x) in enumerate(places.tolist()):
        pictures[i, 0, y - 2 : y + 3, x - 2 : x + 3] += 0.6
        maps[i, 0, 2 * y - 5 : 2 * y + 6, 2 * x - 5 : 2 * x + 6] = 1
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(25):
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net.logits(pictures), maps)
        loss.backward()
        optimiser.step()
    found = net(pictures).flatten(1).argmax(1)
    rows, columns = found // 64 / 2, found % 64 / 2
    assert float(((rows - places[:, 0]).abs() < 4).float().mean()) > 0.9
    assert float(((columns - places[:, 1]).abs() < 4).float().mean()) > 0.9


@pytest.mark.requirement("C45")
@pytest.mark.requirement("C48")
@pytest.mark.requirement("C49")
def test_a_frame_takes_the_greater_of_its_two_intervals():
    torch.manual_seed(0)
    net = neural.RefinerLSTM(1, 64, frames=5)
    motion = torch.rand(2, 4, 1)
    v = torch.sigmoid(net.intervals(motion)).detach()
    for i in range(2):
        wanted = [v[i, 0], max(v[i, 0], v[i, 1]), max(v[i, 1], v[i, 2]), max(v[i, 2], v[i, 3]), v[i, 3]]
        torch.testing.assert_close(net(motion)[i].detach(), torch.stack(wanted))


@pytest.mark.requirement("C50")
@pytest.mark.requirement("C51")
def test_where_nothing_moves_nothing_need_matter():
    assert bool((neural.RefinerLSTM()(torch.zeros(1, 15, 1)) < 0.05).all())
    for hidden in (63, 257):
        with pytest.raises(FrameError, match="64 to 256"):
            neural.RefinerLSTM(hidden=hidden)
    with pytest.raises(FrameError, match=r"intervals \(N, 15, 1\): got \(1, 15, 256\)"):
        neural.RefinerLSTM()(torch.zeros(1, 15, 256))


@pytest.mark.requirement("C85")
@pytest.mark.requirement("C86")
def test_a_generator_of_low_rank_is_far_smaller_than_a_full_one():
    with torch.device("meta"):
        full, low = (neural.baselines.num_parameters(neural.ProjectionGenerator(rank)) for rank in (0, 16))
    assert full == pytest.approx(33.8e6, rel=0.01)
    assert low < full / 9
    matrix = neural.ProjectionGenerator()(torch.rand(2, 384))
    assert matrix.shape == (2, 512, 256)
    torch.testing.assert_close(matrix.pow(2).sum((1, 2)), torch.ones(2))
    assert torch.linalg.matrix_rank(matrix[0].detach()) <= 16
    assert (torch.rand(512) @ matrix[0]).shape == (256,)


@pytest.mark.parametrize(
    ("net", "x"),
    [
        (lambda: neural.RegionUNet(1, 0.2, size=(16, 16)).eval(), (1, 1, 16, 16)),
        (lambda: neural.RefinerLSTM(2, 64, frames=4), (1, 3, 2)),
        (lambda: neural.ProjectionGenerator(2, texts=4, hidden=6, features=5, projected=3), (2, 4)),
        (lambda: neural.ProjectionGenerator(0, texts=4, hidden=6, features=5, projected=3), (2, 4)),
    ],
)
def test_gradients_are_those_of_differences(net, x):
    torch.manual_seed(0)
    net = net().double()
    given = torch.rand(x, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert gradcheck(net, (given,), fast_mode=True, atol=1e-5)
    assert all(torch.isfinite(net(torch.full(x, value, dtype=torch.float64))).all() for value in (0.0, 1.0, 1e5))


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mch", "sch", "hybrid", "edh", "region_net", "anchor_refiner", "task_generator"])
def test_a_file_gives_back_the_network_that_was_saved(files, kind, tmp_path):
    first = neural.load_weights(files[kind])
    neural.save_weights(first, tmp_path / "again.safetensors")
    second = neural.load_weights(tmp_path / "again.safetensors")
    assert not first.training
    assert first.options == second.options
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


def test_files_that_hold_no_network_are_refused(tmp_path, files):
    bad = tmp_path / "bad.safetensors"
    for content in (b"", b"12345678", Path(files["mch"]).read_bytes()[:-9]):
        bad.write_bytes(content)
        with pytest.raises(SourceError, match="cannot read a network"):
            neural.load_weights(bad)
    neural.HyperTensor(torch.zeros(1, 2, 1, 2, 2), 1).save(bad)
    with pytest.raises(SourceError, match="holds no network"):
        neural.load_weights(bad)
    with pytest.raises(PipelineError, match="it holds no network"):
        Mch(str(bad))
    with pytest.raises(PipelineError, match="no weights that stand for themselves"):
        neural.save_weights(torch.nn.Linear(2, 2), bad)


# Operators ------------------------------------------------------------------------------------------------------------


def test_weights_of_another_network_are_told(files, tmp_path):
    from hyperframes.neural.tensorfile import read_tensors, write_tensors

    header, state = read_tensors(files["mch"], "hyperframes_network", 1, "a network", "")
    path = tmp_path / "other.safetensors"
    write_tensors(path, "hyperframes_network", header | {"options": header["options"] | {"width": 1.0}}, state)
    with pytest.raises(SourceError, match="does not hold the mch network that it names: size mismatch for"):
        neural.load_weights(path)


def test_an_operator_gives_what_the_encoder_gives(files):
    frames = np.random.default_rng(0).integers(0, 256, (7, 20, 24, 3), np.uint8)
    got = hf.run(frames, f"mch:weights={files['mch']},hop=3").array
    encoder = neural.load_weights(files["mch"])
    assert got.shape == (3, encoder.out_channels, 2, 2)
    for j, places in enumerate([(0, 1), (3, 4), (6, 6)]):
        clip = torch.from_numpy(frames[list(places)]).permute(3, 0, 1, 2)[None].float() / 255
        with torch.inference_mode():
            np.testing.assert_allclose(got[j], encoder.packed(encoder(clip))[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mch", "sch", "hybrid"])
def test_tensors_do_not_depend_on_the_size_or_the_workers(files, name):
    frames = np.random.default_rng(1).integers(0, 256, (11, 16, 18, 3), np.uint8)
    stage = f"{name}:weights={files[name]},hop=2,keep=embedding"
    whole = hf.run(frames, stage, size=11, workers=1).array
    for size, workers in ((1, 1), (4, 2), (7, 2)):
        np.testing.assert_array_equal(hf.run(frames, stage, size=size, workers=workers).array, whole)


def test_a_live_run_gives_the_same_tensors(tmp_path):
    neural.save_weights(neural.MCH(1, 0.05, size=(2, 16, 16), slices=2, depth=1), tmp_path / "grey.safetensors")
    stage = f"mch:weights={tmp_path / 'grey.safetensors'},hop=2"
    whole = hf.run(np.stack([picture(i) for i in range(8)]), stage).array
    run = Run(packing=hf.Packing(size=3), operator=stage)
    run.play(["cam0"], 8)
    run.stop()
    assert [result.frame_id for result in run.results if result.value is not None] == [0, 2, 4, 6]
    np.testing.assert_array_equal(np.stack([r.value for r in run.results if r.value is not None]), whole)


def test_networks_are_found_by_kind_without_naming_torch(files):
    run = registry.networks.get("region_net")(files["region_net"])
    picture = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    found = run(picture, "map")
    assert found.shape == (64, 64)
    np.testing.assert_array_equal(hf.run(picture[None], f"region_net:weights={files['region_net']}").array[0], found)
    with pytest.raises(hf.RegistryError, match="no network named 'region'"):
        registry.networks.get("region")


def test_the_operator_says_what_it_reads(files):
    with pytest.raises(PipelineError, match="expected weights of 'mch'"):
        Mch(files["sch"])
    with pytest.raises(PipelineError, match="reads rows of 4 values"):
        hf.run(np.zeros((4, 7), np.float32), f"refine_anchors:weights={files['anchor_refiner']}")
    with pytest.raises(PipelineError, match="reads vectors of 4"):
        hf.run(np.zeros((4, 7), np.float32), f"project_task:weights={files['task_generator']}")


# Export ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the exporter's own
@pytest.mark.parametrize("kind", ["mch", "edh", "region_net", "anchor_refiner", "task_generator"])
def test_an_exported_program_gives_what_the_network_gives(files, kind, tmp_path):
    found = export(files[kind], "torch", tmp_path / "net.pt2")
    assert found.difference < 1e-4
    program = torch.export.load(tmp_path / "net.pt2").module()
    network = neural.load_weights(files[kind])
    x = torch.rand(found.inputs, generator=torch.Generator().manual_seed(5))
    wanted = network.packed(network(x)) if isinstance(network, neural.Encoder) else network(x)
    torch.testing.assert_close(program(x), wanted, rtol=1e-3, atol=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt2"]


def test_a_file_that_gives_something_else_is_not_kept(files, tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "_torch", lambda network, example, path: network(example).numpy() + 0.1)
    with pytest.raises(PipelineError, match="gives something else than the network"):
        export(files["region_net"], "torch", tmp_path / "net.pt2")
    assert not list(tmp_path.iterdir())


def test_what_a_format_needs_is_named(files, monkeypatch):
    monkeypatch.setattr(export_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(hf.MissingExtraError, match="export to onnx needs the 'export' extra"):
        export(files["mch"], "onnx")
    with pytest.raises(PipelineError, match="networks are not written for OpenVINO directly") as caught:
        export(files["mch"], "openvino")  # no extra helps there
    assert caught.value.hint.startswith("Export to onnx: OpenVINO reads such files")


def test_only_known_formats_are_exported(files, tmp_path):
    with pytest.raises(PipelineError, match="no format named 'tflite'"):
        export(files["mch"], "tflite")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"nothing")
    with pytest.raises(SourceError, match="cannot read a network"):
        export(bad, "torch")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the exporter's own
@pytest.mark.parametrize("kind", ["mch", "region_net"])
def test_an_onnx_file_gives_what_the_network_gives(files, kind, tmp_path):
    found = export(files[kind], "onnx", tmp_path / "net.onnx")
    assert found.difference < 1e-4
    assert found.bytes == (tmp_path / "net.onnx").stat().st_size
