"""Whole training steps of others: the models as one writes them in plain torch, and JoeyNMT's where it is installed.

JoeyNMT needs older packages than ours: `pip install --no-deps --target FOLDER joeynmt`, what it asks for likewise, and
FOLDER in PYTHONPATH.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.step import BOS, EOS, PAD, UNK, Size
from seqsmooth.training import Batch

Step = Callable[[], object]
RATE, CLIP = 5e-4, 5.0


class PlainShowTell(nn.Module):
    """Show & Tell as one writes it in torch."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.embedding)
        self.image = nn.Linear(size.features, size.embedding)
        self.lstm = nn.LSTM(size.embedding, size.units, batch_first=True)
        self.head = nn.Linear(size.units, size.vocabulary)
        self.dropout = nn.Dropout(0.5)

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        words = self.dropout(self.embedding(tokens))
        states, _ = self.lstm(torch.cat([self.image(features).unsqueeze(1), words], 1))
        logits: Tensor = self.head(states[:, 1:])
        return logits


class PlainRNNsearch(nn.Module):
    """RNNsearch as one writes it in torch: a packed encoder, keys once, and a loop over `nn.LSTMCell`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        context = 2 * size.embedding
        self.source = nn.Embedding(size.vocabulary, size.embedding, padding_idx=PAD)
        self.encoder = nn.LSTM(size.embedding, size.embedding, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(size.embedding, size.units)
        self.key = nn.Linear(context, size.units)
        self.query = nn.Linear(size.units, size.units, bias=False)
        self.score = nn.Linear(size.units, 1, bias=False)
        self.embedding = nn.Embedding(size.vocabulary, size.embedding)
        self.cell = nn.LSTMCell(size.embedding + context, size.units)
        self.head = nn.Linear(size.units, size.vocabulary)
        self.dropout = nn.Dropout(0.2)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        mask = source != PAD
        words = self.dropout(self.source(source))
        packed = pack_padded_sequence(words, mask.sum(1), batch_first=True, enforce_sorted=False)
        states, (last, _) = self.encoder(packed)
        values, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        keys, hidden = self.key(values), torch.tanh(self.bridge(last[1]))
        cell, outputs = torch.zeros_like(hidden), []
        for word in self.dropout(self.embedding(tokens)).unbind(1):
            energies = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + keys)).squeeze(-1)
            weights = energies.masked_fill(~mask, -torch.inf).softmax(-1)
            context = (weights.unsqueeze(1) @ values).squeeze(1)
            hidden, cell = self.cell(torch.cat([word, context], -1), (hidden, cell))
            outputs.append(hidden)
        logits: Tensor = self.head(self.dropout(torch.stack(outputs, 1)))
        return logits


def plain(model: nn.Module, batch: Batch) -> Step:
    """Make a step of plain torch: `F.cross_entropy`, a clipped gradient, fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    inputs = torch.cat([torch.full_like(batch.targets[:, :1], BOS), batch.targets[:, :-1]], 1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(batch.inputs[0], inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()

    return step


def joeynmt(size: Size, batch: Batch) -> Step:
    """Make a step of JoeyNMT's model, loss and optimiser, at the same sizes."""
    module: Any = importlib.import_module("joeynmt.model")

    class Words(SimpleNamespace):
        def __len__(self) -> int:
            return size.vocabulary

        def lookup(self, token: str) -> int:
            return 0

    words = Words(pad_index=PAD, bos_index=BOS, eos_index=EOS, sep_index=None, unk_index=UNK, specials=[], lang_tags=[])
    embeddings = {"embedding_dim": size.embedding, "dropout": 0.2}
    common = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1}
    config = {
        "encoder": common | {"embeddings": embeddings, "hidden_size": size.embedding, "bidirectional": True},
        "decoder": common
        | {"embeddings": embeddings, "hidden_size": size.units, "attention": "bahdanau", "hidden_dropout": 0.2},
    }
    model: Any = module.build_model(config, words, words)
    model.loss_function = ("crossentropy", 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)  # as its builder makes it
    source = batch.inputs[0]
    mask = source != PAD
    order = mask.sum(1).argsort(descending=True)
    targets = batch.targets[order]
    given = {
        "src": source[order],
        "src_length": mask.sum(1)[order],
        "src_mask": mask[order].unsqueeze(1),
        "trg": targets,
        "trg_input": torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], 1),
        "trg_mask": (targets != PAD).unsqueeze(1),
    }
    tokens = int((targets != PAD).sum())

    def step() -> None:
        model.train()
        loss, _, _, correct = model(return_type="loss", **given)
        (loss / tokens).backward()
        correct.item()
        loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        model.zero_grad()

    return step
