"""Files of small untrained networks, one of each kind."""

import torch

from hyperframes import neural


def networks(folder):
    """Write them into `folder`; paths by kind."""
    torch.manual_seed(0)
    made = {
        "mch": neural.MCH(3, 0.05, size=(2, 16, 16), slices=2, depth=1),
        "sch": neural.SCH(3, 0.05, size=(2, 16, 16), slices=2, depth=1),
        "hybrid": neural.Hybrid(3, 0.05, size=(2, 16, 16), slices=2),
        "edh": neural.EDH(0.05, size=(4, 16, 16), nodes=4, neighbours=2, depth=1),
        "region_net": neural.RegionUNet(3, 0.25, size=(16, 16)),
        "anchor_refiner": neural.RefinerLSTM(4, 64, frames=3),
        "task_generator": neural.ProjectionGenerator(2, texts=4, hidden=8, features=6, projected=5),
    }
    for kind, module in made.items():
        neural.save_weights(module, folder / f"{kind}.safetensors")
    return {kind: str(folder / f"{kind}.safetensors") for kind in made}
