"""`seqsmooth glove`: train word vectors on a corpus, show how it goes, write them in GloVe's text format."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from seqsmooth.console import StatusLine

if TYPE_CHECKING:
    from seqsmooth.text import Vocabulary

EXAMPLE = """\
examples:
  seqsmooth glove dataset.json --splits train,restval --out vectors.txt --vocabulary vocabulary.json
  seqsmooth glove data/coco --dim 300 --out data/coco/glove.txt  # a prepared corpus: its words, its training texts
  seqsmooth glove captions.txt --tokeniser ptb --dim 300 --out vectors.txt
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the defaults of the training are Stanford's."""
    add = parser.add_argument
    parser.epilog = EXAMPLE
    rule = "text with a sentence a line (.gz or not), Karpathy's dataset.json, or a prepared corpus"
    add("corpus", type=Path, help=rule)
    add("--out", type=Path, required=True, metavar="FILE", help="the file of the vectors")
    add("--overwrite", action="store_true", help="replace existing files")
    add("--vocabulary", type=Path, metavar="FILE", help="also write the vocabulary here, as JSON")
    rule = (
        "whitespace, ptb, moses:en:lower, subword-nmt or hf:NAME (default: the tokens of a json; whitespace for text)"
    )
    add("--tokeniser", metavar="NAME", help=rule)
    rule = "the splits of a json, as in train,restval (default all), or of a prepared corpus (default train)"
    add("--splits", default="", metavar="NAMES", help=rule)
    add("--min-count", type=int, help="the count below which words are left out (default 5)")
    rule = "the most words to keep, by frequency"
    add("--most-words", "--max-words", type=int, metavar="N", help=rule)
    add("--dim", type=int, default=100, help="the number of dimensions (default 100)")
    add("--iterations", type=int, default=25, help="the number of passes over the co-occurrences (default 25)")
    add("--window", type=int, default=15, help="the greatest distance at which words co-occur (default 15)")
    add("--x-max", type=float, default=100.0, help="the count from which on all weigh the same (default 100)")
    add("--rate", type=float, default=0.05, help="the learning rate of AdaGrad (default 0.05)")
    add("--combine", default="sum", help="what becomes of word and context vectors: sum (default), mean, or word")
    add("--no-eos", action="store_true", help="make no vector for the end of a sentence")
    add("--seed", type=int, default=0, help="the seed of the training (default 0)")
    rule = "the number of threads (default 1: batches are small, and more threads wait for each other)"
    add("--threads", type=int, default=1, help=rule)
    add("--device", help="cuda or cpu (default: cuda where there is one)")


def start(given: argparse.Namespace) -> int:
    """Do what was asked for and return the exit status."""
    try:
        return _train(given)
    except KeyboardInterrupt:
        print(f"\nseqsmooth: stopped; {given.out} was not touched", file=sys.stderr)
        return 130


def _train(given: argparse.Namespace) -> int:
    from seqsmooth import checks
    from seqsmooth.cli.names import split_names
    from seqsmooth.files.paths import check_destination, check_source

    for name in ("out", "vocabulary"):
        path = getattr(given, name)
        if path is not None:
            check_destination(name, path)
            new = given.overwrite or not path.exists()
            checks.must(new, name, "a file that is not there yet (--overwrite replaces it)", path)
    same = given.vocabulary is not None and given.vocabulary.resolve() == given.out.resolve()
    checks.must(not same, "vocabulary", "another file than the vectors'", given.vocabulary)
    if not given.corpus.is_dir():
        check_source("corpus", given.corpus)
    checks.one_of("device", given.device or "cpu", ("cuda", "cpu"))
    checks.at_least("threads", given.threads, 1)
    import torch  # what can be wrong up to here is said before the second that this takes

    from seqsmooth.cli.devices import keep_memory_on
    from seqsmooth.text import GloVe, WordCounts, tokeniser
    from seqsmooth.text.corpus import read_sentences

    keep_memory_on(given.device or "auto")
    glove = GloVe(
        dim=given.dim,
        iterations=given.iterations,
        window=given.window,
        x_max=given.x_max,
        rate=given.rate,
        combine=given.combine,
        eos=not given.no_eos,
        seed=given.seed,
    )
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    checks.must(device == "cpu" or torch.cuda.is_available(), "device", "cpu where there is no GPU", device)
    splits = list(split_names("splits", given.splits or None))
    clock = _Clock()
    if given.corpus.is_dir():
        sentences, vocabulary = _read_prepared(given, splits)
    else:
        chosen = None if given.tokeniser is None else tokeniser(given.tokeniser)
        sentences, signature = read_sentences(given.corpus, chosen, splits)
        counts = WordCounts.of(sentences)
        rarest = 5 if given.min_count is None else given.min_count
        vocabulary = counts.vocabulary(min_count=rarest, most_words=given.most_words, tokeniser=signature)
    clock.say(f"read {len(sentences)} sentences: {len(vocabulary)} words and special tokens")
    threads = torch.get_num_threads()
    torch.set_num_threads(given.threads)
    try:
        vectors = glove.fit(sentences, vocabulary, device=device, progress=clock.iteration)
    finally:
        torch.set_num_threads(threads)
    if given.vocabulary is not None:
        vocabulary.save(given.vocabulary)
    vectors.save(given.out)
    clock.say(f"wrote {len(vectors.words)} vectors to {given.out}")
    return 0


def _read_prepared(given: argparse.Namespace, splits: list[str]) -> tuple[list[list[str]], Vocabulary]:
    from seqsmooth import checks
    from seqsmooth.data import open_corpus

    for name in ("tokeniser", "min_count", "most_words"):
        checks.must(getattr(given, name) is None, name, "left out for a prepared corpus, which has its words", "given")
    corpus = open_corpus(given.corpus)
    sentences = [text.split(" ") for split in splits or ["train"] for text in corpus.texts(split)]
    return sentences, corpus.vocabulary


class _Clock:
    """Says on stderr what was done and when: on a terminal iterations rewrite one line."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.first: float | None = None
        self.line = StatusLine()

    def say(self, text: str, *, passing: bool = False) -> None:
        (self.line.show if passing else self.line.write)(f"{time.monotonic() - self.begin:6.1f} s  {text}")

    def iteration(self, done: int, of: int, loss: float) -> None:
        now = time.monotonic()
        # The first iteration comes with the counting before it, so that it tells nothing of the rest.
        left = "" if self.first is None else f", {(now - self.first) / (done - 1) * (of - done):.0f} s left"
        self.first = self.first or now
        passing = self.line.rewrites and done < of
        self.say(f"iteration {done} of {of}, loss {loss:.5f}{left}", passing=passing)
