"""`ImageEncoder`, the protocol of every image encoder, and `CachedFeatures`, which computes nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqsmooth.models.configurable import Configurable
from seqsmooth.ops import checks

Output = Literal["pooled", "regions"]
OUTPUTS: tuple[Output, ...] = ("pooled", "regions")
IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_SCALE = (58.395, 57.12, 57.375)


class ImageEncoder(Configurable):
    """A pretrained network that turns pictures into features.

    Pictures are bytes, a quarter of the size of floats, and are scaled on the device. The network always stays in
    evaluation mode, even after `train()`: BatchNorm keeps its statistics, and there is no dropout. It is frozen but for
    the last blocks that `tune` selects.

    Attributes:
        side: of the square pictures.
        feature_shape: the shape of the features of a picture: (F,) pooled, (R, D) regions.

    Examples:
        >>> from seqsmooth.models import EfficientNetLite
        >>> encoder: ImageEncoder = EfficientNetLite(0, side=64, pretrained=False).train()
        >>> any(value.requires_grad for value in encoder.parameters()), encoder.network.training
        (False, False)
        >>> encoder.tune(2)
        >>> any(value.requires_grad for value in encoder.parameters()), encoder.network.training
        (True, False)
    """

    side: int
    feature_shape: tuple[int, ...]
    mean: Tensor  # (3, 1, 1)
    scale: Tensor  # (3, 1, 1)

    def _set_up(
        self,
        network: nn.Module,
        side: int,
        mean: tuple[float, ...],  # of each colour, in pixels of 0 to 255
        scale: tuple[float, ...],
        output: Output,
        grid: int | None,
        normalised: bool,
    ) -> None:
        checks.one_of("output", output, OUTPUTS)
        checks.flag("normalised", normalised)
        pooled = output == "pooled"
        checks.must(pooled or not normalised, "normalised", "False for regions", normalised)
        checks.must(not pooled or grid is None, "grid", "None for pooled features", grid)
        self.side = checks.at_least("side", side, 1)
        self.output: Output = output
        self.grid = None if grid is None else checks.at_least("grid", grid, 1)
        self.normalised = normalised
        # Colours of a pixel side by side, the fast layout for convolutions on a GPU.
        self.network = network.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(scale).view(-1, 1, 1), persistent=False)
        self.tune(0)
        black = torch.zeros(1, 3, side, side, dtype=torch.uint8)
        self.feature_shape = tuple(self(black).shape[1:])

    @abstractmethod
    def maps(
        self,
        pixels: Tensor,  # (N, 3, S, S) scaled
    ) -> Tensor:  # (N, D, h, w), or (N, R, D) where positions are no grid
        """The output of the network's last layer at each position."""

    def forward(
        self,
        images: Tensor,  # (N, 3, S, S) uint8, or floats of 0 to 255
    ) -> Tensor:  # (N, F) or (N, R, D)
        """The features of pictures."""
        checks.shape("images", images, None, 3, self.side, self.side, letters="(N, 3, S, S)")
        pixels = (images.to(self.mean.dtype) - self.mean) / self.scale
        maps = self.maps(pixels.contiguous(memory_format=torch.channels_last))
        if self.grid is not None:
            checks.must(maps.dim() == 4, "grid", "None for a network whose places are no grid", self.grid)
            maps = F.adaptive_avg_pool2d(maps, self.grid)
        regions = maps.flatten(2).transpose(1, 2) if maps.dim() == 4 else maps
        if self.output == "regions":
            return regions.contiguous()
        pooled = regions.mean(1)
        return F.normalize(pooled, dim=-1) if self.normalised else pooled

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the module; the network stays in evaluation mode."""
        super().train(mode)
        self.network.eval()
        return self

    def blocks(self) -> list[nn.Module]:
        """The blocks of the network in order: its outermost list of modules."""
        queue = deque([self.network])
        while queue:
            module = queue.popleft()
            if isinstance(module, nn.ModuleList) and len(module) > 1:
                return list(module)
            queue.extend(module.children())
        return [self.network]

    def tune(self, last: int) -> None:
        """Unfreeze the last blocks and the layers after them, and freeze the rest; BatchNorm stays frozen."""
        blocks = self.blocks()
        checks.at_least("tuned", last, 0)
        checks.must(last <= len(blocks), "tuned", f"at most {len(blocks)}, the number of blocks", last)
        first = next(blocks[-last].parameters()) if last else None
        trains = False
        for parameter in self.network.parameters():  # in the order of the layers
            trains = trains or parameter is first
            parameter.requires_grad_(trains)
        for module in self.network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.requires_grad_(False)


class CachedFeatures(ImageEncoder):
    """Features that were computed before, for stage one.

    Args:
        shape: the shape of the features of a picture: (F,) pooled, (R, D) regions.

    Examples:
        >>> CachedFeatures((16,))(torch.zeros(2, 16)).shape
        torch.Size([2, 16])
    """

    kind = "cached"

    def __init__(self, shape: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        checks.must(len(shape) in (1, 2), "shape", "(F,) or (R, D)", tuple(shape))
        self.feature_shape = tuple(checks.at_least("shape", size, 1) for size in shape)
        self._arguments["shape"] = list(self.feature_shape)
        self.network = nn.Identity()

    def forward(
        self,
        images: Tensor,  # (N, F) or (N, R, D)
    ) -> Tensor:  # (N, F) or (N, R, D)
        """The features, unchanged."""
        checks.shape("features", images, None, *self.feature_shape, letters="(N, F) or (N, R, D)")
        return images

    def maps(
        self,
        pixels: Tensor,  # (N, D, h, w)
    ) -> Tensor:  # (N, D, h, w)
        """The maps, unchanged."""
        return pixels

    def tune(self, last: int) -> None:
        """Refuse any number of blocks but 0, since there is no network to tune."""
        checks.must(last == 0, "tuned", "0 where features are cached", last)
