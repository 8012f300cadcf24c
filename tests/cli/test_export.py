"""`hyperframes export`: what it says of a network that it wrote."""

import pytest

from hyperframes import neural


@pytest.mark.slow
def test_only_what_was_written_and_how_near_it_comes_is_told(spawn, tmp_path):
    neural.save_weights(neural.RefinerLSTM(), tmp_path / "refiner.safetensors")
    process = spawn("export", "refiner.safetensors", "--to", "onnx")
    said, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert said == "refiner.onnx\n"
    assert [line.split(":")[0] for line in told.splitlines()] == ["input", "output", "difference"]
