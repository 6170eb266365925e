"""Build model, objective and optimizer from a config and a corpus."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seqsmooth import rewards, smoothing
from seqsmooth.console import show_log
from seqsmooth.models import Captioner, Model, build, build_encoder, parameter_groups
from seqsmooth.models.registry import arguments
from seqsmooth.ops import checks
from seqsmooth.text import Vocabulary, WordVectors
from seqsmooth.text.vocabulary import SPECIALS
from seqsmooth.training import config as sections
from seqsmooth.training.neighbours import cached_nearest
from seqsmooth.training.places import find_beside
from seqsmooth.training.step import adam

if TYPE_CHECKING:
    from seqsmooth.data import Corpus


STORED: dict[str, bool | torch.dtype | None] = {"auto": None, "always": True, "never": False, "float16": torch.float16}
"""The argument `stored` by what a config calls it."""


class Builder:
    """Builds what a config describes on a corpus; what is read from files is read once.

    Args:
        corpus: the prepared corpus.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._vectors: dict[tuple[str, str], WordVectors] = {}

    def model(self, config: sections.Config) -> Model[Any, Any]:
        """Build the model; its weights are drawn from torch's global generator."""
        if config.model.kind == Captioner.kind:
            return self._captioner(config.model)
        return self._writer(config.model, self.corpus.feature_shape)

    def _captioner(self, section: Any) -> Captioner:
        """Build an encoder of pictures, and a decoder of its features."""
        shape = self.corpus.feature_shape
        rule = "one that reads features or sources on this corpus, which has no pictures (`prepare captions --images`)"
        checks.must(shape is not None and len(shape) == 3, "model.kind", rule, section.kind)
        assert shape is not None
        encoder = build_encoder(**_options(section.encoder))
        rule = f"of pictures of {encoder.side} pixels a side, as the encoder's (`prepare captions --side`)"
        checks.must(encoder.side == shape[-1], "data.folder", rule, f"of {shape[-1]}")
        decoder = self._writer(section.decoder, encoder.feature_shape)
        return Captioner(encoder, decoder, tuned=section.tuned)

    def _writer(self, section: Any, shape: tuple[int, ...] | None) -> Model[Any, Any]:
        """Build a model that reads features of a shape, or the sources of the corpus."""
        source, target = self.corpus.source_vocabulary, self.corpus.vocabulary
        options = _options(section)
        kind = options["kind"]
        for name, vocabulary in (("vectors", target), ("source_vectors", source)):
            if options.get(name) is not None and vocabulary is not None:
                options[name] = self._initial(options[name], vocabulary, options["embedding_size"], name)
        wanted = arguments(kind)
        if "source_size" in wanted:
            checks.must(source is not None, "model.kind", "one for captions on this corpus", kind)
            assert source is not None
            sizes: dict[str, Any] = {"source_size": len(source), "source_pad": source.specials().pad}
        else:
            checks.must(self.corpus.task == "captions", "model.kind", "one for translation on this corpus", kind)
            sentence = (
                f"The captions have no features, which {kind} reads: `seqsmooth prepare features` computes them, and "
                "`seqsmooth prepare captions ... --features` takes them."
            )
            checks.require(shape is not None, sentence)
            assert shape is not None
            fits = len(shape) == (1 if kind == "show_tell" else 2)
            rule = "show_tell for pooled features, top_down for regions, captioner for pictures"
            checks.must(fits, "model.kind", rule, f"{kind} for features of shape {tuple(shape)}")
            sizes = {"feature_size": shape[-1]}
        return build(**options, vocab_size=len(target), **sizes)

    def objective(self, config: sections.Config) -> smoothing.Objective:
        """Build the loss."""
        section = config.objective
        with show_log("seqsmooth.smoothing"):
            return smoothing.Objective(
                self._law(section.sequence),
                self._law(section.token),
                lazy=section.lazy,
                entropy=section.entropy,
                specials=self.corpus.vocabulary.specials(),
                vocab_size=len(self.corpus.vocabulary),
            )

    def _law(self, section: Any) -> Any:
        """Build a law or a reward from its section; the corpus fills in counts, vectors and document frequencies."""
        options, wanted = _options(section), signature(section.built).parameters
        options = {name: self._law(value) if is_dataclass(value) else value for name, value in options.items()}
        del options["kind"]
        clip = options.pop("clip", None)
        if "vectors" in options:
            vectors, known = self._align(options.pop("vectors"), self.corpus.vocabulary, eos=options.pop("eos"))
            options |= {"embeddings": vectors, "missing": ~known} if "missing" in wanted else {"embeddings": vectors}
        if "counts" in wanted and options.get("beta", 1) > 0:
            options["counts"] = self.corpus.vocabulary.frequencies()
        if "stored" in options:
            options["stored"] = STORED[options["stored"]]
        if "substitutes" in options and options["substitutes"] is None:
            del options["substitutes"]
        if "document_frequencies" in wanted:
            options["document_frequencies"] = self._document_frequencies
        law = section.built(**options)
        if isinstance(law, smoothing.Similarity):
            law.nearest = cached_nearest
        return law if clip is None else rewards.Clip(law, 0.0, clip)

    @cached_property
    def _document_frequencies(self) -> rewards.DocumentFrequencies:
        return self.corpus.document_frequencies()

    def _align(
        self, name: str, vocabulary: Vocabulary, *, eos: bool, key: str = "vectors"
    ) -> tuple[Tensor, Tensor]:  # (V, d), (V,) bool
        if (name, vocabulary.checksum) not in self._vectors:
            path = find_beside(self.corpus.folder, name, key)
            self._vectors[name, vocabulary.checksum] = WordVectors.load(path, only=vocabulary)
        values, known = self._vectors[name, vocabulary.checksum].align(vocabulary, eos=eos)
        some = bool(known[len(SPECIALS) :].any())
        checks.must(some, key, "of words of this vocabulary", f"{name}, which has none of them")
        return values, known

    def _initial(self, name: str, vocabulary: Vocabulary, size: int, key: str) -> Tensor:  # (V, E)
        """Read initial vectors; a word without one is drawn as if there were no file."""
        values, known = self._align(name, vocabulary, eos=True, key=f"model.{key}")
        rule = f"of {size} numbers a word, as model.embedding_size says"
        checks.must(values.shape[1] == size, f"model.{key}", rule, f"of {values.shape[1]}")
        drawn = torch.empty_like(values).uniform_(-0.1, 0.1)
        return torch.where(known.unsqueeze(-1), values, drawn)


def _options(section: Any) -> dict[str, Any]:
    return {item.name: getattr(section, item.name) for item in fields(section)}


def make_optimizer(model: Model[Any, Any], section: sections.Optimizer) -> torch.optim.Optimizer:
    """Make Adam or AdamW over the parameters that learn; each group remembers its initial rate."""
    how: dict[str, Any] = {"betas": section.betas, "eps": section.eps, "weight_decay": section.weight_decay}
    how["decoupled"] = section.kind == "adamw"
    if isinstance(model, Captioner):
        rate = section.lr if section.encoder_lr is None else section.encoder_lr
        return adam(parameter_groups(model, section.lr, rate), section.lr, **how)
    rule = "left out for a model without an encoder, any but a captioner"
    checks.must(section.encoder_lr is None, "optimizer.encoder_lr", rule, section.encoder_lr)
    return adam([value for value in model.parameters() if value.requires_grad], section.lr, **how)
