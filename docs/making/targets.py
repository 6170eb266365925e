"""The pictures of the page on concepts, drawn from what the library says of the demo's captions.

python docs/making/targets.py

writes docs/pictures/*.svg. Text has the colour of its surroundings, so that the pictures do in light and dark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import seqsmooth as ss
from seqsmooth.data.scenes.annotators import annotate
from seqsmooth.data.scenes.world import invent_different
from seqsmooth.text import GloVe, Vocabulary, WordCounts, document_frequencies

SCENES, CHOSEN, CAPTION, WORD = 1500, 173, 0, "car"
BLUE, ORANGE, GREY = "#2b8cbe", "#e6743e", "#8a97a6"


@dataclass(frozen=True)
class World:
    """Captions of the scenes, their words, GloVe of them, and one image to look at."""

    vocabulary: Vocabulary
    embeddings: Tensor  # (V, d)
    missing: Tensor  # (V,) bool
    captions: list[list[list[str]]]

    @property
    def references(self) -> Tensor:  # (1, R, S)
        """The captions of the image, that which is learned first."""
        chosen = self.captions[CHOSEN]
        ids = [self.vocabulary.encode(chosen[CAPTION])] + [
            self.vocabulary.encode(caption) for place, caption in enumerate(chosen) if place != CAPTION
        ]
        return torch.nn.utils.rnn.pad_sequence([torch.as_tensor(row) for row in ids], batch_first=True).unsqueeze(0)


def make_world() -> World:
    """The demo's annotators describe its scenes; GloVe is trained on what they say."""
    random = np.random.default_rng(0)
    scenes = islice(invent_different(random), SCENES)
    captions = [[text.split() for text in annotate(scene, random)] for scene in scenes]
    sentences = [caption for image in captions for caption in image]
    vocabulary = WordCounts.of(sentences).vocabulary(min_count=5)
    embeddings, found = GloVe(dim=50, seed=0).fit(sentences, vocabulary).align(vocabulary)
    return World(vocabulary, embeddings, ~found, captions)


def draw_targets(world: World) -> str:
    """What each loss wants at one position, as bars."""
    words, specials = world.vocabulary, world.vocabulary.specials()
    references = world.references
    common = {"specials": specials, "vocab_size": len(words.words)}
    near = {"tau": 0.08, "missing": world.missing}
    objectives = {
        "MLE": ss.mle(**common),
        "Label smoothing": ss.label_smoothing(0.4, **common),
        "Tok": ss.tok(world.embeddings, alpha=0.4, **near, **common),
        "Seq, lazy, V_refs": ss.seq(rate=0.4, pool="refs", **common),
        "Tok-Seq": ss.tok_seq(world.embeddings, 0.08, 0.4, missing=world.missing, rate=0.4, pool="refs", **common),
    }
    target = references[:, 0]
    place = target[0].tolist().index(words.id(WORD))
    width, height, parts = 178, 22, []
    for column, (name, objective) in enumerate(objectives.items()):
        law = objective.propose(target, references=references).target.dense(len(words.words))[0, 0, place]
        order = law.argsort(descending=True, stable=True)[:6]
        bars = [(words.words[token], float(law[token])) for token in order.tolist() if law[token] > 0.002]
        rest = max(0.0, 1 - sum(mass for _, mass in bars))
        left = column * width
        parts.append(text(left, 40, name, weight=600))
        for row, (word, mass) in enumerate([*bars, *([("all others", rest)] if rest > 0.002 else [])]):
            top = 56 + row * height
            colour = GREY if word == "all others" else ORANGE if word == WORD else BLUE
            parts.append(box(left, top, max(1.0, 84 * mass), 13, colour))
            parts.append(
                text(
                    left + max(1.0, 84 * mass) + 5,
                    top + 11,
                    f"{word} {mass:.2f}" if mass >= 0.005 else f"{word} {mass:.3f}",
                    size=11,
                )
            )
    said = " ".join(world.captions[CHOSEN][CAPTION])
    parts.append(text(0, 14, f"“{said}”: the target at “{WORD}”", size=13))
    return picture(5 * width, 56 + 7 * height, parts)


def draw_samples(world: World) -> str:
    """Sampled sequences, and how much each weighs by a constant reward and by CIDEr."""
    words, specials = world.vocabulary, world.vocabulary.specials()
    references = world.references
    cider = ss.rewards.Cider(document_frequencies(world.captions, words))
    weights = {}
    for name, reward in (("constant", ss.rewards.Constant()), ("CIDEr", cider)):
        law = ss.Rewarded(reward, ss.Hamming(rate=0.35, pool="refs"), tau=1.0, samples=5, alpha=0.6)
        objective = ss.Objective(law, lazy=False, specials=specials, vocab_size=len(words.words))
        generator = torch.Generator().manual_seed(5)
        candidates = objective.propose(references[:, 0], references=references, generator=generator)
        weights[name] = candidates.weights[0].tolist()
    truth = words.decode(candidates.sequences[0, 0].tolist())
    rows = [words.decode(ids) for ids in candidates.sequences[0].tolist()]
    widths = [8.2 * max(len(word) for word in column) + 8 for column in zip(*rows, strict=True)]
    first = sum(widths) + 40
    starts = {"constant": first, "CIDEr": first + 110}
    parts = [text(0, 14, "y", weight=600)]
    parts += [text(start, 14, f"w, {name}", size=11) for name, start in starts.items()]
    for row, sampled in enumerate(rows):
        top = 24 + row * 26
        for place, (ours, theirs) in enumerate(zip(sampled, truth, strict=True)):
            look = {"colour": ORANGE, "weight": 600} if ours != theirs else {}
            parts.append(text(sum(widths[:place]), top + 15, ours, **look))
        for name, start in starts.items():
            mass = weights[name][row]
            parts.append(box(start, top + 4, 70 * mass, 13, GREY if row == 0 else BLUE))
            parts.append(text(start + 70 * mass + 5, top + 15, f"{mass:.2f}", size=11))
    return picture(first + 210, 24 + 6 * 26 + 6, parts)


def draw_rates() -> str:
    """How often a word changes, by the temperature, for pools of three sizes; dots are the authors' temperatures."""
    left, bottom, width, height = 46, 250, 560, 220
    taus = torch.linspace(0.05, 0.6, 111)
    parts = []
    for rate in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - rate * height
        parts.append(f'<path d="M{left} {y}h{width}" stroke="{GREY}" stroke-opacity=".35"/>')
        parts.append(text(left - 8, y + 4, f"{rate:g}", size=11, anchor="end"))
    for tau in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        x = left + (tau - 0.05) / 0.55 * width
        parts.append(text(x, bottom + 18, f"{tau:g}", size=11, anchor="middle"))
    pools = (
        ("V_refs, 34 words", 34, 0.3, "#3a9d5d"),
        ("V_batch, 167", 167, 0.17, BLUE),
        ("V, 9,488", 9488, 0.1, ORANGE),
    )
    for row, (name, size, authors, colour) in enumerate(pools):
        rates = [flip(float(tau), size) for tau in taus]
        points = [
            (left + (float(tau) - 0.05) / 0.55 * width, bottom - rate * height)
            for tau, rate in zip(taus, rates, strict=True)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        theirs = flip(authors, size)
        x, y = left + (authors - 0.05) / 0.55 * width, bottom - theirs * height
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        parts.append(text(left + width + 16, 60 + 24 * row, name, colour=colour, weight=600))
        parts.append(text(x + 9, y + 4, f"{theirs:.2f}", size=11))
    parts.append(text(left, 14, "probability that a word is replaced", size=12))
    parts.append(text(left + width / 2, bottom + 36, "tau", size=12, anchor="middle"))
    return picture(left + width + 160, bottom + 44, parts)


def flip(tau: float, size: int) -> float:
    """The mass that the Hamming law over a pool of this size takes away from a word of it."""
    target = ss.seq(tau, vocab_size=size).propose(torch.tensor([[0]])).target
    return 1 - float(target.dense(size)[0, 0, 0, 0])


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: int = 13,
    colour: str | None = None,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    """Some words, in the colour of the surroundings unless told."""
    look = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour or "currentColor"}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A bar."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2" fill="{colour}"/>'


def picture(width: float, height: float, parts: list[str]) -> str:
    """The whole, on a white ground for pages that show it as an image."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" viewBox="-10 -6 {width + 20:g} {height + 12:g}"'
    font = 'font-family="system-ui, sans-serif" color="#1f2933"'
    ground = f'<rect class="ground" x="-10" y="-6" width="{width + 20:g}" height="{height + 12:g}" fill="#ffffff"/>'
    return "\n".join([f'{head} width="{width + 20:g}" {font}>', ground, *parts, "</svg>", ""])


def drawn() -> Iterator[tuple[str, str]]:
    """All pictures, by the names of their files."""
    world = make_world()
    yield "targets.svg", draw_targets(world)
    yield "samples.svg", draw_samples(world)
    yield "rates.svg", draw_rates()


if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[1] / "pictures"
    for file, content in drawn():
        (folder / file).write_text(content, encoding="utf-8")
        sys.stderr.write(f"docs/pictures/{file}\n")
