"""Beginning with the weights of another run: more of the same, or stage two with the decoder of stage one."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from seqsmooth.models import Captioner, Model
from seqsmooth.models.weights import load_weights
from seqsmooth.ops import checks
from seqsmooth.training.config import Config
from seqsmooth.training.runs import Run

if TYPE_CHECKING:
    from seqsmooth.data import Corpus


def start_from_run(model: Model[Any, Any], config: Config, corpus: Corpus) -> None:
    """Give a model the best weights of the run that `trainer.start_from` names; those of stage one to its decoder."""
    assert config.trainer.start_from is not None
    run = Run.open(config.trainer.start_from.replace("{seed}", str(config.seed)))
    begun = model
    if isinstance(model, Captioner) and run.config.model.kind != Captioner.kind:
        _check_encoder(run, config, corpus)
        begun = model.decoder
    load_weights(run.weights("best"), begun, vocabulary=corpus.vocabulary.checksum)


def _check_encoder(run: Run, config: Config, corpus: Corpus) -> None:
    """Check that the run's features are of this encoder: another's may have the same size, but mean something else."""
    try:
        features = run.corpus().features
    except ValueError:  # moved or deleted since: it cannot be asked
        return
    description = None if features is None else features.encoder
    if description is None or corpus.features is None:
        return
    section = config.model.encoder
    theirs: dict[str, Any] = json.loads(description)
    ours = {item.name: getattr(section, item.name) for item in fields(section)}
    if corpus.features.encoder is not None:
        ours["resize"] = json.loads(corpus.features.encoder)["resize"]
    defaults = {item.name: item.default for item in fields(section)} | {"resize": None}
    # The side of the pictures is the corpus's, which was checked; weights are loaded or not.
    for key in sorted(ours.keys() - {"side", "pretrained"}, key=lambda name: name != "kind"):
        there = theirs.get(key, defaults[key])
        rule = f"a run on features of the encoder of this one, with `{key}` {ours[key]!r}"
        checks.must(there == ours[key], "trainer.start_from", rule, f"one with {there!r}")
