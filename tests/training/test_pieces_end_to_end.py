"""Corpora of pieces are scored, shown and counted in words, and everywhere in the same way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oracles.small_corpora import NOUNS, PATTERNS, captions
from oracles.small_runs import values
from seqsmooth.cli.main import main
from seqsmooth.data import Corpus, FeatureStore, Side, open_corpus, write_captions, write_pairs
from seqsmooth.metrics import cider
from seqsmooth.reports.behaviour import behaviour
from seqsmooth.reports.examples import draw_examples, read_sources
from seqsmooth.reports.report import gather
from seqsmooth.text import tokeniser
from seqsmooth.training import Run
from seqsmooth.training.reader import parse_config
from seqsmooth.training.trainer import train


class Halves:
    """A subword tokeniser without a package: words of three letters and more fall into two pieces."""

    signature = "halves|join:@@"

    def __call__(self, text: str) -> list[str]:
        found: list[str] = []
        for word in text.split():
            middle = len(word) // 2
            found += [f"{word[:middle]}@@", word[middle:]] if len(word) > 2 else [word]
        return found


def of_pieces(folder: Path, side: Side) -> Corpus:
    """The corpus of `captions`, with the same texts and features, split by another tokeniser."""
    plain = captions(folder.with_name("plain"), vectors=None)
    texts = {}
    for name in plain.splits:
        joined = [[" ".join(words) for words in several] for several in plain.references(name)]
        texts[name] = list(zip(plain.ids(name), joined, strict=True))
    assert plain.features is not None
    store = FeatureStore(plain.features.ids, plain.features.array)
    return write_captions(folder, texts, store, side=side)


def made_by_hugging_face(folder: Path) -> Side:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    teacher = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator([pattern.format(*NOUNS) for pattern in PATTERNS] + list(NOUNS), teacher)
    made.save(str(folder / "tokenizer.json"))
    return Side(tokeniser(f"hf:{folder / 'tokenizer.json'}"), min_count=1)


@pytest.mark.parametrize("kind", ["halves", "hugging face"])
def test_training_decoding_and_reports_agree_on_words(kind: str, tmp_path: Path, capsys: Any) -> None:
    side = Side(Halves(), min_count=1) if kind == "halves" else made_by_hugging_face(tmp_path)
    corpus = of_pieces(tmp_path / "corpus", side)
    plain = open_corpus(tmp_path / "plain")
    for name in corpus.splits:
        assert corpus.references(name) == plain.references(name), "words, as if nothing had been split"
        assert corpus.targets(name) != plain.targets(name)
    given = values(tmp_path / "corpus", objective={"token": {"kind": "dirac"}}, trainer={"max_epochs": 8})
    given |= {"validation": {"beam": 2}, "decoding": {"beam": 2, "max_length": 30, "batch_size": 10}}
    given["schedule"], given["optimizer"] = {"kind": "constant"}, {"lr": 0.03, "clip": 1.0}
    given["model"] |= {"units": 32, "embedding_size": 32, "embedding_dropout": 0.0}
    run = train(parse_config(given), tmp_path / "run")

    # What the file says are words that people use, and its score is that of these words.
    assert main(["decode", str(run.folder), "--split", "val", "--metrics", "cider,bleu-4"]) == 0
    lines = [json.loads(line) for line in run.hypotheses_file("val").read_text(encoding="utf-8").splitlines()]
    written = {line["id"]: line["hypotheses"][0]["text"] for line in lines}
    known = {word for several in plain.references("train") for words in several for word in words}
    assert sum(word in known for text in written.values() for word in text.split()) > 20
    references = dict(zip(plain.ids("val"), plain.references("val"), strict=True))
    score = cider(written, references)
    assert score.value > 0.3, "something was learned"
    saved = json.loads(run.scores("val").read_text(encoding="utf-8"))["scores"]["cider"]["value"]
    assert saved == pytest.approx(score.value)
    # The best validation was of the same weights with the same beam.
    assert run.manifest["best"]["value"] == pytest.approx(100 * score.value, rel=1e-5)

    # `score` reads the same file, against references as people have them.
    karpathy = [
        {"imgid": name, "split": "val", "sentences": [{"tokens": words, "raw": " ".join(words)} for words in several]}
        for name, several in references.items()
    ]
    (tmp_path / "k.json").write_text(json.dumps({"images": karpathy}), encoding="utf-8")
    asked = ["score", str(run.hypotheses_file("val")), str(tmp_path / "k.json"), "--split", "val", "--metrics", "cider"]
    assert main([*asked, "--json", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text())["scores"]["cider"]["value"] == pytest.approx(score.value)

    # Reports count and show words, and judge the model on its own tokens.
    seen = behaviour(Run.open(run.folder), "val")
    lengths = Counter(len(words) for several in plain.references("val") for words in several)
    assert {place: count for place, count in enumerate(seen.reference_lengths) if count} == dict(lengths)
    assert seen.words == len({word for text in written.values() for word in text.split()})
    tokens = [len(pieces) + 1 for several in corpus.targets("val") for pieces in several]
    assert sum(held.tokens for held in seen.calibration) == sum(tokens)
    assert corpus.word_counts() == plain.word_counts()
    (table,) = gather([run.folder], "val")
    shown = draw_examples(table.rows, 3, 0)
    assert all(one.outputs[0][0] == written[one.name] for one in shown)
    assert all(list(one.references) == [" ".join(words) for words in references[one.name]] for one in shown)


def test_sources_are_shown_in_words(tmp_path: Path) -> None:
    side = Side(Halves(), min_count=1)
    splits = {name: [("eine Katze", "a cat"), ("zwei Hunde", "two dogs")] for name in ("train", "test")}
    corpus = write_pairs(tmp_path / "corpus", splits, source=side, target=side)
    assert read_sources(corpus, "test") == ["eine Katze", "zwei Hunde"]
    assert next(corpus.texts("test", "sources")) == "ei@@ ne Ka@@ tze"
