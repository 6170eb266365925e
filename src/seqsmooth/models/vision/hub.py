"""`HubEncoder`: any vision model of transformers as an image encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from seqsmooth.models.vision.encoder import IMAGENET_MEAN, IMAGENET_SCALE, ImageEncoder, Output
from seqsmooth.packages import import_package


class HubEncoder(ImageEncoder):
    """A model of transformers whose `last_hidden_state` is a map or a sequence: ResNet, ConvNeXT, ViT, Swin.

    Pictures are scaled by the model's `preprocessor_config.json`, or like ImageNet's if there is none.

    Args:
        name: the name of a model on the hub, or its folder; the paper's is "microsoft/resnet-152".
        output: "pooled" for the mean over positions (N, F), "regions" for the positions (N, R, D).
        grid: pool the map to a grid of this side; the paper's 14 repeats each of the 7.
        normalised: scale pooled features to length 1, as the authors did.
        side: of the pictures.
        pretrained: load the weights; False reads only the sizes, for weights of a checkpoint.
    """

    kind = "transformers"

    def __init__(
        self,
        name: str = "microsoft/resnet-152",
        output: Output = "pooled",
        *,
        grid: int | None = None,
        normalised: bool = False,
        side: int = 224,
        pretrained: bool = True,
    ) -> None:
        super().__init__()
        transformers = import_package("transformers", f"the image encoder {name}", "vision")
        try:
            if pretrained:
                network = transformers.AutoModel.from_pretrained(name)
            else:
                network = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(name))
        except (OSError, ValueError) as error:
            rule = "the name or folder of a vision model that can be loaded"
            raise ValueError(f"`name` must be {rule}; it is {name!r}.") from error
        if isinstance(getattr(network, "pooler", None), nn.Module):
            network.pooler = nn.Identity()  # pooled here; unused weights would get no gradient
        mean, scale = _colours(transformers, name)
        network = network.float()  # it may be saved in half precision
        self._set_up(network, side, mean, scale, output, grid, normalised)

    def maps(
        self,
        pixels: Tensor,  # (N, 3, S, S)
    ) -> Tensor:  # (N, D, h, w) or (N, R, D)
        """The last map or sequence of the network."""
        maps: Tensor = self.network(pixel_values=pixels).last_hidden_state
        return maps


def _colours(transformers: Any, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and scale of each colour, for pixels of 0 to 255."""
    try:
        path = transformers.utils.cached_file(name, "preprocessor_config.json")
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        mean, scale = (tuple(255 * float(value) for value in config[key]) for key in ("image_mean", "image_std"))
    except (OSError, KeyError, TypeError):
        return IMAGENET_MEAN, IMAGENET_SCALE
    except ValueError as error:
        rule = "one whose preprocessor_config.json holds numbers"
        raise ValueError(f"`name` must be {rule}; it is {name!r}.") from error
    return mean, scale
