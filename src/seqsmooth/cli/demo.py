"""`seqsmooth demo`: the same small captioner trained with several losses, on scenes it can learn in a second.

Every loss starts from the same weights and sees the same captions in the same order; only the loss differs. The
captioner is then judged on scenes it has never seen, with five references each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median, stdev

import torch
from torch import Tensor, nn

import seqsmooth as ss
from seqsmooth.data.scenes import BOS, EOS, PAD, UNK, Scenes, Split, make_scenes, word_vectors
from seqsmooth.ops import checks
from seqsmooth.rewards import Cider, DocumentFrequencies

TRAINING_SCENES = 200
BATCH = 64
STEPS = 200
LEARNING_RATE = 0.03
HIDDEN = 64
DROPOUT = 0.2
SPECIALS = ss.Specials(pad=PAD, bos=BOS, eos=EOS, unk=UNK)


class Captioner(nn.Module):
    """An LSTM decoder of scenes: the features set its first state and are added to every word it reads."""

    def __init__(self, features: int, vocab_size: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.state = nn.Linear(features, 2 * hidden)
        self.scene = nn.Linear(features, hidden)
        self.embedding = nn.Embedding(vocab_size, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.output = nn.Linear(hidden, vocab_size)

    def forward(
        self,
        features: Tensor,  # (B, F)
        inputs: Tensor,  # (B, K, T) ids, shifted right
    ) -> Tensor:
        """Score the next word after each prefix: (B, K, T, V)."""
        batch, copies, _ = inputs.shape
        start, memory = self.state(features).tanh().repeat_interleave(copies, 0).unsqueeze(0).chunk(2, -1)
        words = self._drop(self.embedding(inputs) + self.scene(features)[:, None, None])
        hidden, _ = self.lstm(words.flatten(0, 1), (start.contiguous(), memory.contiguous()))
        logits: Tensor = self.output(self._drop(hidden.unflatten(0, (batch, copies))))
        return logits

    def _drop(
        self,
        values: Tensor,  # (B, K, T, H)
    ) -> Tensor:  # (B, K, T, H)
        # Dropout with one mask for all the positions of a sequence (Gal and Ghahramani 2016); cheap to draw.
        return values * nn.functional.dropout(torch.ones_like(values[:, :, :1]), DROPOUT, self.training)

    @torch.no_grad()
    def write(
        self,
        features: Tensor,  # (B, F)
        length: int,
    ) -> Tensor:
        """Caption greedily: (B, length) ids, PAD after the EOS."""
        start, memory = self.state(features).tanh().unsqueeze(0).chunk(2, -1)
        state = (start.contiguous(), memory.contiguous())
        word = torch.full((len(features),), BOS)
        ended = torch.zeros(len(features), dtype=torch.bool)
        written = []
        for _ in range(length):
            hidden, state = self.lstm((self.embedding(word) + self.scene(features)).unsqueeze(1), state)
            word = self.output(hidden[:, 0]).argmax(-1).masked_fill(ended, PAD)
            written.append(word)
            ended = ended | (word == EOS)
        return torch.stack(written, 1)


@dataclass(frozen=True)
class Outcome:
    """What one trained captioner does on the scenes it is judged on."""

    nll: float  # unsmoothed, per token, all five references
    cider: float  # mean CIDEr-D of the greedy captions
    words: int  # distinct words in the greedy captions
    seconds: float  # spent in training
    captions: Tensor  # (N, T) the greedy captions


def losses(scenes: Scenes) -> dict[str, ss.Objective]:
    """The losses compared, by the name of their row.

    The numbers were chosen on the validation scenes, each loss for itself; the demo does not repeat that search.
    """
    size = len(scenes.vocabulary)
    vectors = word_vectors(scenes.train.captions, size)
    return {
        "MLE": ss.mle(specials=SPECIALS),
        "Label smoothing": ss.label_smoothing(0.6, specials=SPECIALS, vocab_size=size),
        "Seq, lazy": ss.Objective(
            sequence=ss.Hamming(tau=0.3, pool="refs", alpha=0.3), lazy=True, specials=SPECIALS, vocab_size=size
        ),
        "Tok-Seq, lazy": ss.Objective(
            sequence=ss.Hamming(tau=0.25, pool="refs", alpha=0.5),
            token=ss.Similarity(vectors, tau=0.5, alpha=0.5, missing="zeros"),
            lazy=True,
            specials=SPECIALS,
        ),
    }


def train(
    objective: ss.Objective,
    split: Split,
    vocab_size: int,
    *,
    seed: int,
    steps: int = STEPS,
    progress: Callable[[float], None] = lambda done: None,
) -> Captioner:
    """Train a captioner; `seed` fixes the weights it starts from and the captions it sees, whatever the loss."""
    checks.at_least("steps", steps, 1)
    order = torch.Generator().manual_seed(seed)
    noise = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # the global generator, which dropout needs, is left as it was
        torch.manual_seed(seed)
        model = Captioner(split.features.shape[1], vocab_size)
        optimiser = torch.optim.Adam(model.parameters(), fused=True)
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = LEARNING_RATE * min((step + 1) / 20, 1.02 - step / steps, 1.0)
            chosen = torch.randint(len(split), (BATCH,), generator=order)
            which = torch.randint(split.captions.shape[1], (BATCH,), generator=order)
            references = split.captions[chosen]  # (B, 5, T)
            targets = _trim(references[torch.arange(BATCH), which])  # (B, T')
            candidates = objective.propose(targets, references=references, generator=noise)
            loss = objective(model(split.features[chosen], candidates.shifted(BOS)), candidates)
            optimiser.zero_grad()
            loss.total.backward()
            optimiser.step()
            progress((step + 1) / steps)
    return model.eval()


def judge(model: Captioner, split: Split, seconds: float = 0.0) -> Outcome:
    """Measure a captioner on a split: `seconds` is only passed on."""
    captions = model.write(split.features, split.captions.shape[2])
    references = _bare(split.captions)
    reward = Cider(DocumentFrequencies.build(references.tolist()))
    scores = reward(_bare(captions).unsqueeze(1), references)
    return Outcome(
        nll=unsmoothed(model, split),
        cider=float(scores.mean()),
        words=len(set(captions[captions > UNK].tolist())),
        seconds=seconds,
        captions=captions,
    )


@torch.no_grad()
def unsmoothed(model: Captioner, split: Split) -> float:
    """The negative log-likelihood of a token of the references, all five of each scene."""
    targets = split.captions  # (N, 5, T)
    inputs = torch.cat([torch.full_like(targets[..., :1], BOS), targets[..., :-1]], -1)
    logits = model(split.features, inputs)
    return float(nn.functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), ignore_index=PAD))


def run(*, seconds: float = 40.0, seed: int = 0, seeds: int = 3) -> int:
    """Train with every loss, print the table, and return the exit status.

    Args:
        seconds: The time to train in all. Where the machine is too slow for it, all runs are made shorter alike.
        seed: The corpus follows from it, and the runs use `seed`, `seed` + 1 and so on.
        seeds: The number of runs for each loss.
    """
    checks.positive("seconds", seconds)
    checks.at_least("seed", seed, 0)
    checks.at_least("seeds", seeds, 1)
    scenes = make_scenes(seed, train=TRAINING_SCENES)
    compared = losses(scenes)
    with _one_thread():
        steps = _affordable_steps(compared, scenes, seconds, seeds)
        print(_introduction(scenes, steps, seeds))
        outcomes: dict[str, list[Outcome]] = {name: [] for name in compared}
        for s in range(seed, seed + seeds):
            for name, objective in compared.items():
                outcomes[name].append(_one_run(name, objective, scenes, seed=s, steps=steps))
    print(_table(outcomes))
    print(_reading(outcomes))
    print(_example(scenes, outcomes))
    print("Exactly these losses were used:")
    for name, objective in compared.items():
        print(f"  {name:<{_width(compared)}}  {objective.signature()}")
    return 0


def _one_run(name: str, objective: ss.Objective, scenes: Scenes, *, seed: int, steps: int) -> Outcome:
    title = f"  seed {seed}  {name:<18}"
    on_terminal = sys.stdout.isatty()

    def draw(done: float) -> None:
        if on_terminal:
            bar = "#" * int(20 * done)
            print(f"\r{title}[{bar:<20}] {done:4.0%}", end="", flush=True)

    start = time.perf_counter()
    model = train(objective, scenes.train, len(scenes.vocabulary), seed=seed, steps=steps, progress=draw)
    outcome = judge(model, scenes.test, time.perf_counter() - start)
    line = f"{title}{outcome.seconds:4.1f} s"
    print(f"\r{line:<{len(title) + 30}}" if on_terminal else line, flush=True)  # the spaces wipe out the bar
    return outcome


def _affordable_steps(compared: dict[str, ss.Objective], scenes: Scenes, seconds: float, seeds: int) -> int:
    # The time of a step is the median of a few, so that one slow step does not shorten the runs; a tenth is kept for
    # the evaluation.
    one_of_each = 0.0
    for objective in compared.values():
        times: list[float] = []
        train(objective, scenes.train, len(scenes.vocabulary), seed=0, steps=8, progress=_note_time(times))
        one_of_each += median(later - earlier for earlier, later in pairwise(times))
    return max(1, min(STEPS, int(0.9 * seconds / (one_of_each * seeds))))


def _note_time(times: list[float]) -> Callable[[float], None]:
    return lambda done: times.append(time.perf_counter())


def _introduction(scenes: Scenes, steps: int, seeds: int) -> str:
    shorter = "" if steps == STEPS else f" (of {STEPS}: more would not fit in the time given)"
    return (
        f"{len(scenes.train)} scenes to learn from, {len(scenes.test)} others to caption, five references each, "
        f"{len(scenes.vocabulary)} words.\n"
        f"Each loss: {seeds} run{'s' if seeds > 1 else ''} of {steps} steps{shorter}, "
        "from the same weights and over the same captions.\n"
    )


def _table(outcomes: dict[str, list[Outcome]]) -> str:
    width = _width(outcomes)
    lines = [f"\n{'loss':<{width}}  {'test NLL':>15}  {'CIDEr-D':>15}  {'words':>5}  {'seconds':>7}"]
    for name, runs in outcomes.items():
        nll, cider = _spread([run.nll for run in runs]), _spread([run.cider for run in runs])
        words, seconds = mean(run.words for run in runs), mean(run.seconds for run in runs)
        lines.append(f"{name:<{width}}  {nll:>15}  {cider:>15}  {words:>5.0f}  {seconds:>7.1f}")
    lines.append(
        "\nMean +- standard deviation over the runs, on scenes not seen in training. NLL: of a token of the references,"
        "\nunsmoothed; less is better. CIDEr-D: of greedy captions; more is better. words: distinct words written."
    )
    return "\n".join(lines)


def _reading(outcomes: dict[str, list[Outcome]]) -> str:
    """Say what the table shows against its first row, run by run, whichever way it went."""
    first, *others = outcomes
    lines = [f"\nAgainst {first}, run by run:"]
    for name in others:
        pairs = list(zip(outcomes[name], outcomes[first], strict=True))
        nll = [ours.nll - theirs.nll for ours, theirs in pairs]
        cider = [ours.cider - theirs.cider for ours, theirs in pairs]
        lines.append(
            f"  {name:<{_width(outcomes)}}  NLL {mean(nll):+.3f}, better in {sum(d < 0 for d in nll)} of {len(nll)};"
            f"  CIDEr-D {mean(cider):+.3f}, better in {sum(d > 0 for d in cider)} of {len(cider)}"
        )
    lines.append(
        "A toy: it shows that the losses run and what they do to a model, not what they are worth on real data."
    )
    return "\n".join(lines)


def _example(scenes: Scenes, outcomes: dict[str, list[Outcome]]) -> str:
    """Show one scene: the first of those that the losses caption in the most different ways."""
    written = torch.stack([runs[0].captions for runs in outcomes.values()], 1)  # (N, losses, T)
    chosen = max(range(len(scenes.test)), key=lambda n: (len({tuple(ids) for ids in written[n].tolist()}), -n))
    lines = ["\nOne of the scenes, as its references say it:"]
    lines += [f"  {'':<{_width(outcomes)}}  {scenes.words(ids)}" for ids in scenes.test.captions[chosen].tolist()]
    lines.append("and as the captioners do:")
    for name, ids in zip(outcomes, written[chosen].tolist(), strict=True):
        lines.append(f"  {name:<{_width(outcomes)}}  {scenes.words(ids)}")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.3f} +- {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _width(names: Iterable[str]) -> int:
    return max(len(name) for name in names)


def _trim(
    captions: Tensor,  # (B, T)
) -> Tensor:  # (B, T')
    return captions[:, : int((captions != PAD).sum(1).max())]


def _bare(
    captions: Tensor,  # (..., T)
) -> Tensor:  # (..., T)
    # As rewards take them: words only, negative elsewhere.
    return captions.masked_fill((captions == PAD) | (captions == EOS), -1)


@contextmanager
def _one_thread() -> Iterator[None]:
    # A model this small is fastest on one core, and two threads on busy cores wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
