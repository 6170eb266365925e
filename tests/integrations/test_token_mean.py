"""Lightning's steps with `TokenMean`, against a plain loop over whole batches and `F.cross_entropy`."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.integrations import TokenMean

pl = pytest.importorskip("pytorch_lightning", reason="needs pytorch-lightning: pip install 'seqsmooth[toolkit]'")

V, LR, CLIP = 7, 0.5, 0.05


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(V, 6), nn.Linear(6, V)).double()


def batches(count: int) -> list[Tensor]:
    """Pairs of sequences of very different lengths: a mean of means would be far from the mean."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, 20, (count,), generator=draw).tolist()
    return [torch.randint(V, (2, length), generator=draw) for length in lengths]


class Module(TokenMean, pl.LightningModule):
    def __init__(self, data: list[Tensor], *, forgets: bool = False) -> None:
        super().__init__()
        self.data, self.forgets = data, forgets
        self.net, self.objective = net(), ss.label_smoothing(0.1)

    def train_dataloader(self) -> Any:
        mine = self.data[self.global_rank :: self.trainer.world_size]
        return torch.utils.data.DataLoader(mine, batch_size=None)  # type: ignore[arg-type]

    def training_step(self, batch: Tensor, _: int) -> Tensor:
        loss = self.objective(self.net(batch[:, :-1]), batch[:, 1:])
        return loss.total if self.forgets else self.summed(loss)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), LR)


def expected(data: list[Tensor], width: int) -> list[Tensor]:
    """Plainly: the sum over all tokens of `width` batches over their number, clipped, and a step down."""
    model = net()
    for start in range(0, len(data), width):
        losses, tokens = [], 0
        for batch in data[start : start + width]:
            logits, labels = model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()
            losses.append(F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum"))
            tokens += labels.numel()
        gradients = torch.autograd.grad(torch.stack(losses).sum() / tokens, list(model.parameters()))
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        with torch.no_grad():
            for value, gradient in zip(model.parameters(), gradients, strict=True):
                value -= LR * gradient * min(1.0, CLIP / (float(norm) + 1e-6))
    return [value.detach() for value in model.parameters()]


def fitted(module: Any, folder: Path, **options: Any) -> list[Tensor]:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        gradient_clip_val=CLIP,
        default_root_dir=folder,
        use_distributed_sampler=False,
        **quiet,
        **options,
    )
    trainer.fit(module)
    return [value.detach() for value in module.net.parameters()]


@pytest.mark.parametrize("accumulated", [1, 3])
def test_a_step_does_not_depend_on_how_it_is_cut(accumulated: int, tmp_path: Path) -> None:
    data = batches(7)  # so that the last step of three is one of a single batch
    weights = fitted(Module(data), tmp_path, accumulate_grad_batches=accumulated)
    torch.testing.assert_close(weights, expected(data, accumulated), rtol=0, atol=1e-12)


def test_lightnings_own_mean_is_another(tmp_path: Path) -> None:
    """Or else the test above would show nothing."""
    data = batches(6)
    module = Module(data, forgets=True)
    module.on_before_optimizer_step = lambda optimizer: None  # type: ignore[method-assign, assignment]
    weights = fitted(module, tmp_path, accumulate_grad_batches=3)
    assert max(float((a - b).abs().max()) for a, b in zip(weights, expected(data, 3), strict=True)) > 1e-3


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    data = batches(8)  # the first process has the even ones, the other the odd
    weights = fitted(Module(data), tmp_path, accumulate_grad_batches=2, devices=2, strategy="ddp_fork")
    torch.testing.assert_close(weights, expected(data, 4), rtol=0, atol=1e-12)


def test_a_step_that_was_not_finished_is_forgotten(tmp_path: Path) -> None:
    data = batches(2)
    module = Module([*data, torch.full((2, 5), V)])  # the last of which has tokens that do not exist
    with pytest.raises(IndexError):
        fitted(module, tmp_path, accumulate_grad_batches=3)
    module.data = data
    weights = fitted(module, tmp_path, accumulate_grad_batches=2)
    torch.testing.assert_close(weights, expected(data, 2), rtol=0, atol=1e-12)


def test_a_training_step_without_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^No tokens were counted in this step; return `self\.summed\(loss\)` from `t"
    ):
        fitted(Module(batches(1), forgets=True), tmp_path)


def test_gradients_that_are_elsewhere_are_missed() -> None:
    module = Module([])
    module._tokens = torch.tensor(3)
    with pytest.raises(
        ValueError, match=r"^The parameters have no gradients to divide; .* does not work with DeepSpeed"
    ):
        module.on_before_optimizer_step(torch.optim.SGD(module.parameters(), LR))


def test_a_step_of_padding_alone_is_no_step() -> None:
    module = Module([])
    module._trainer = SimpleNamespace(  # type: ignore[assignment]
        accumulate_grad_batches=2, world_size=1, strategy=SimpleNamespace(reduce=lambda value, reduce_op: value)
    )
    logits = module.net(torch.zeros(1, 3, dtype=torch.long))
    module.summed(module.objective(logits, torch.full((1, 3), -100))).backward()
    module.on_before_optimizer_step(torch.optim.SGD(module.parameters(), LR))
    assert all(bool((value.grad == 0).all()) for value in module.net.parameters())


def test_what_is_summed_is_a_loss() -> None:
    sentence = "`loss` must be the Loss that an objective returns, whose tokens are counted; it is a Tensor."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Module([]).summed(torch.tensor(1.0))  # type: ignore[arg-type]
