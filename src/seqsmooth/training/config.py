"""The config of a run: a frozen record for each section of its YAML file, with the types of its values.

Files and folders are absolute, or looked for where `seqsmooth.training.places` says.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from seqsmooth import checks
from seqsmooth.training.sections import model_sections, sequence_sections, token_sections


@dataclass(frozen=True)
class Data:
    """The prepared corpus, and how its batches are made."""

    folder: str
    train: str = "train"
    validation: str = "val"
    batch_size: int = 50
    captions_per_image: int | None = None
    references: int = 5
    max_length: int | None = None
    """Words after which targets and sources are cut; EOS comes after them, while `decoding.max_length` counts it."""
    fraction: float = 1.0
    """The share of the training items to learn from, drawn by the seed of the run. Vocabulary, counts and document
    frequencies stay those of the whole."""


@dataclass(frozen=True)
class Anneal:
    """A number of the objective that moves from `start` to `end`; it changes at the start of an epoch."""

    key: str
    start: float
    end: float
    epochs: int
    delay: int = 0
    shape: Literal["linear", "cosine", "step"] = "linear"


@dataclass(frozen=True)
class ObjectiveSection:
    """The loss: the arguments of `seqsmooth.Objective`, with the laws of `seqsmooth.smoothing.registry` by name."""

    sequence: Any = field(
        metadata={"choices": sequence_sections}, default_factory=lambda: sequence_sections()["ground_truth"]()
    )
    token: Any = field(metadata={"choices": token_sections}, default_factory=lambda: token_sections()["dirac"]())
    lazy: bool = True
    entropy: float = 0.0
    anneal: tuple[Anneal, ...] = ()

    @property
    def needs_references(self) -> bool:
        """Whether the loss needs all references of an item, not only the target."""
        law = self.sequence
        if getattr(law, "against", None) == "references":
            return True
        return getattr(getattr(law, "proposal", law), "pool", None) == "refs"


@dataclass(frozen=True)
class Optimizer:
    """Adam, or AdamW, which decays the weights apart from the gradient."""

    kind: Literal["adam", "adamw"] = "adam"
    lr: float = 5e-4
    encoder_lr: float | None = None  # of what learns of a captioner's encoder; `lr` by default
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        for name in ("lr", "eps", "weight_decay"):
            checks.non_negative(f"optimizer.{name}", getattr(self, name))
        fit = all(0 <= beta < 1 for beta in self.betas)
        checks.must(fit, "optimizer.betas", "two numbers of 0 or more, below 1", list(self.betas))


class _Schedule:
    """The checks that all schedules share."""

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("every", 1), ("patience", 1)):
            if hasattr(self, name):
                checks.at_least(f"schedule.{name}", getattr(self, name), least)
        for name in ("factor", "final"):
            if hasattr(self, name):
                checks.non_negative(f"schedule.{name}", getattr(self, name))


@dataclass(frozen=True)
class ConstantRate(_Schedule):
    """The learning rate stays the same after `warmup` steps."""

    warmup: int = 0
    kind: Literal["constant"] = "constant"


@dataclass(frozen=True)
class Step(_Schedule):
    """The rate is multiplied by `factor` at epoch `start` (from 0) and every `every` epochs after it, as in the paper.

    `compound` is the authors' code: each epoch multiplies the rate of the epoch before by what the paper means as the
    whole factor.
    """

    factor: float
    every: int = 1
    start: int = 1
    warmup: int = 0
    compound: bool = False
    kind: Literal["step"] = "step"


@dataclass(frozen=True)
class InverseRoot(_Schedule):
    """The rate falls with the square root of the steps after `warmup`."""

    warmup: int
    kind: Literal["inverse_root"] = "inverse_root"


@dataclass(frozen=True)
class Cosine(_Schedule):
    """The rate falls along half a cosine to the share `final` of itself at the end of the run."""

    warmup: int = 0
    final: float = 0.0
    kind: Literal["cosine"] = "cosine"


@dataclass(frozen=True)
class Linear(_Schedule):
    """The rate falls in a straight line to the share `final` of itself at the end of the run."""

    warmup: int = 0
    final: float = 0.0
    kind: Literal["linear"] = "linear"


@dataclass(frozen=True)
class Plateau(_Schedule):
    """The rate is multiplied by `factor` after `patience` validations in a row without a new best."""

    factor: float = 0.5
    patience: int = 1
    warmup: int = 0
    kind: Literal["plateau"] = "plateau"


@dataclass(frozen=True)
class Trainer:
    """How long a model trains, at which precision, on which device, and what is saved on the way."""

    max_epochs: int = 20
    max_steps: int | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    accumulate: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 1
    start_from: str | None = None
    """The folder of a run whose best weights this one begins with; a captioner takes those of a run on features for its
    decoder. `{seed}` stands for the seed of this run, and in a base `{loss}` for the name of the loss."""
    bundle: int = 25
    log_every: int = 100
    checkpoint_every: int | None = None
    checkpoint_seconds: float = 60.0
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    progress: bool = True


@dataclass(frozen=True)
class Validation:
    """How often the model is validated, how it is scored, and when training stops early."""

    every: int = 1
    beam: int = 1
    metrics: tuple[str, ...] = ("cider", "bleu-4")
    monitor: str = "cider"
    patience: int | None = None
    batch_size: int = 500
    limit: int | None = None


@dataclass(frozen=True)
class Decoding:
    """The search with which the trained model decodes."""

    beam: int = 3
    max_length: int = 20
    length: Literal["none", "mean", "gnmt"] = "mean"
    alpha: float = 0.6
    no_repeat: int = 0
    batch_size: int = 500


@dataclass(frozen=True)
class Config:
    """The config of a run."""

    data: Data
    model: Any = field(metadata={"choices": model_sections})
    name: str = ""
    row: str = ""
    table: str = ""
    seed: int = 0
    objective: ObjectiveSection = field(default_factory=ObjectiveSection)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: ConstantRate | Step | InverseRoot | Cosine | Linear | Plateau = field(default_factory=ConstantRate)
    trainer: Trainer = field(default_factory=Trainer)
    validation: Validation = field(default_factory=Validation)
    decoding: Decoding = field(default_factory=Decoding)


def plain(value: Any) -> Any:
    """Turn a config into dictionaries, lists and numbers, for YAML and JSON."""
    if dataclasses.is_dataclass(value):
        names = sorted((item.name for item in dataclasses.fields(value)), key=lambda name: name != "kind")
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value
