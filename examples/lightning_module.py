"""A LightningModule: smoothed targets, accumulation in which every token counts the same, a likelihood to compare.

python examples/lightning_module.py

With `devices=2` it is DDP, and a step is still a mean over the tokens of all its batches.
"""

import pytorch_lightning as pl  # or `import lightning.pytorch as pl`: the mixin asks for neither
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import seqsmooth as ss

VOCABULARY, PAD = 20, 0


class LanguageModel(ss.integrations.TokenMean, pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.recurrence = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, VOCABULARY)
        # A module of the module: it moves along with it, and has nothing to save.
        self.objective = ss.seq(rate=0.05, specials=ss.Specials(pad=PAD), vocab_size=VOCABULARY)

    def loss(self, tokens: Tensor) -> ss.Loss:  # (B, T)
        hidden = self.recurrence(self.embedding(tokens[:, :-1]))[0]
        return self.objective.head(hidden, self.head.weight, tokens[:, 1:], self.head.bias)

    def training_step(self, tokens: Tensor, _: int) -> Tensor:
        loss = self.loss(tokens)
        self.log("loss", loss.total.detach(), on_step=True)
        return self.summed(loss)  # divided by the tokens of the whole step before the gradient is clipped

    def validation_step(self, tokens: Tensor, _: int) -> None:
        loss = self.loss(tokens)
        self.log("nll", loss.nll, batch_size=int(loss.tokens))  # the plain likelihood, whatever the objective

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def counting(rows: int, seed: int) -> Tensor:
    """Sequences to learn: each token is the one before plus one or two, and some are shorter."""
    draw = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (rows, 9), generator=draw).cumsum(1)
    lengths = torch.randint(3, 10, (rows, 1), generator=draw)
    return torch.where(torch.arange(9) < lengths, 1 + steps % (VOCABULARY - 1), PAD)


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    model = LanguageModel()
    trainer = pl.Trainer(
        max_epochs=2, accumulate_grad_batches=4, gradient_clip_val=1.0, accelerator="cpu", devices=1,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    train = DataLoader(counting(2048, 1), batch_size=16, shuffle=True)
    held = DataLoader(counting(128, 2), batch_size=64)
    before = trainer.validate(model, held, verbose=False)[0]["nll"]
    trainer.fit(model, train, held)
    after = trainer.callback_metrics["nll"].item()
    print(f"negative log-likelihood of a token: {before:.3f}, after {trainer.global_step} steps {after:.3f}")
    return before, after


if __name__ == "__main__":
    main()
