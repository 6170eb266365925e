"""The interface of every image encoder, and an encoder that passes features on."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqsmooth.models.plain import Plain
from seqsmooth.ops import checks

Output = Literal["pooled", "regions"]
OUTPUTS: tuple[Output, ...] = ("pooled", "regions")
IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_SCALE = (58.395, 57.12, 57.375)


class ImageEncoder(Plain):
    """Pictures to features, by a network that was trained before.

    Pictures travel as bytes, a quarter of the traffic, and are scaled on the device. The network always stays in
    evaluation mode, even after `train()`: BatchNorm keeps its statistics, and nothing is dropped. It is frozen until
    `tune` sets its last blocks free.

    Attributes:
        side: of the square pictures it reads.
        feature_shape: what it makes of one picture: (F,) pooled, (R, D) regions.

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
        # The colours of a pixel side by side, as the convolutions of GPUs want them.
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
    ) -> Tensor:  # (N, D, h, w), or (N, R, D) where places are no grid
        """Compute the maps of the network's last layer."""

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
        places = maps.flatten(2).transpose(1, 2) if maps.dim() == 4 else maps
        if self.output == "regions":
            return places.contiguous()
        pooled = places.mean(1)
        return F.normalize(pooled, dim=-1) if self.normalised else pooled

    def train(self, mode: bool = True) -> Self:
        """Do what `nn.Module.train` does, but for the network."""
        super().train(mode)
        self.network.eval()
        return self

    def blocks(self) -> list[nn.Module]:
        """The blocks of the network, from the first to the last: its outermost list of modules."""
        queue = deque([self.network])
        while queue:
            module = queue.popleft()
            if isinstance(module, nn.ModuleList) and len(module) > 1:
                return list(module)
            queue.extend(module.children())
        return [self.network]

    def tune(self, last: int) -> None:
        """Set the last blocks free, with all that comes after them, and freeze the rest; BatchNorm stays frozen."""
        blocks = self.blocks()
        checks.at_least("tuned", last, 0)
        checks.must(last <= len(blocks), "tuned", f"at most {len(blocks)}, for so many blocks are there", last)
        first = next(blocks[-last].parameters()) if last else None
        free = False
        for parameter in self.network.parameters():  # in the order of the layers
            free = free or parameter is first
            parameter.requires_grad_(free)
        for module in self.network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.requires_grad_(False)


class CachedFeatures(ImageEncoder):
    """Features that were computed before, as they are: stage one.

    Args:
        shape: of those of one picture: (F,) pooled, (R, D) regions.

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
        """The features themselves."""
        checks.shape("features", images, None, *self.feature_shape, letters="(N, F) or (N, R, D)")
        return images

    def maps(
        self,
        pixels: Tensor,  # (N, D, h, w)
    ) -> Tensor:  # (N, D, h, w)
        """Return the features as they are."""
        return pixels

    def tune(self, last: int) -> None:
        """Refuse, unless there is nothing to do."""
        checks.must(last == 0, "tuned", "0 where features are cached", last)
