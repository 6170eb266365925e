"""A captioner of ours sent to somebody: trained, saved as safetensors and JSON, loaded without a trainer, used.

python examples/export_captioner.py

Of a run of `seqsmooth train`: `model, corpus = seqsmooth.training.load_model("runs/...")`, then `save` as below.
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.decoding import BeamSearch
from seqsmooth.models import ShowTell, load, save
from seqsmooth.text import Vocabulary

SHADES = ["black", "grey", "silver", "white"]


def pictures(count: int, vocabulary: Vocabulary, seed: int) -> tuple[Tensor, Tensor]:  # (N, 8), (N, T)
    """Features, bright or dark, and what is said of them."""
    draw = torch.Generator().manual_seed(seed)
    shades = torch.randint(len(SHADES), (count,), generator=draw)
    features = shades[:, None] - 1.5 + 0.1 * torch.randn(count, 8, generator=draw)
    said = [["a", SHADES[shade], "square"] for shade in shades.tolist()]
    return features, torch.tensor([vocabulary.encode(words, eos=True) for words in said])


def train(vocabulary: Vocabulary, steps: int = 80) -> tuple[ShowTell, float, float]:
    model = ShowTell(len(vocabulary), feature_size=8, embedding_size=32, units=32, tied=True, embedding_dropout=0.1)
    objective = ss.seq(rate=0.1, pool="batch", specials=vocabulary.specials(), vocab_size=len(vocabulary))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    likelihoods = []
    for step in range(steps):
        features, captions = pictures(32, vocabulary, step)
        candidates = objective.propose(captions)
        hidden = model([features], candidates.inputs)
        loss = objective.head(hidden, model.head.weight, candidates, model.head.bias)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        likelihoods.append(float(loss.nll))
    return model.eval(), likelihoods[0], likelihoods[-1]


def describe(model: ShowTell, features: Tensor, vocabulary: Vocabulary) -> list[str]:
    found = BeamSearch(vocabulary.specials(), max_length=6)(model, features).lists()
    return [" ".join(vocabulary.decode(best.tokens)) for best, *_ in found]


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    counts = {"a": 32, "square": 32} | dict.fromkeys(SHADES, 8)
    vocabulary = Vocabulary.build(counts, sentences=32)
    model, before, after = train(vocabulary)
    folder = Path(tempfile.mkdtemp()) / "captioner"
    save(model, folder, vocabulary)  # config.json, model.safetensors, vocabulary.json

    received, words = load(folder), Vocabulary.load(folder / "vocabulary.json")
    features, _ = pictures(4, words, seed=1000)
    captions = describe(received, features, words)
    assert captions == describe(model, features, vocabulary)
    print(f"nll of a token {before:.3f}, at the end {after:.3f}; {', '.join(sorted(p.name for p in folder.iterdir()))}")
    print("\n".join(captions))
    return before, after


if __name__ == "__main__":
    main()
