"""sacreBLEU's own numbers and signature, with what our records add."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

import seqsmooth as ss


def corpus(seed: int, items: int = 40) -> tuple[dict[int, str], dict[int, list[str]]]:
    draw = random.Random(seed)
    words = ["The", "the", "cat,", "cat", "sat!", "on", "a", "mat.", "Mat", "it's", "&amp;", "1,000", "naïve", "\u2028"]
    references = {
        key: [" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(draw.randint(1, 3))]
        for key in range(items)
    }
    hypotheses = {
        key: " ".join(word if draw.random() < 0.8 else draw.choice(words) for word in several[0].split())
        for key, several in references.items()
    }
    return hypotheses, references


@pytest.mark.parametrize("tokenise", ["none", "13a"])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_corpus_and_sentences(tokenise: str, lowercase: bool, seed: int) -> None:
    hypotheses, references = corpus(seed)
    scores = ss.metrics.sacrebleu(hypotheses, references, tokenise=tokenise, lowercase=lowercase)
    metric = BLEU(tokenize=tokenise, lowercase=lowercase, force=True)
    most = max(len(several) for several in references.values())
    streams = [[(several + [None] * most)[place] for several in references.values()] for place in range(most)]
    assert scores.value == metric.corpus_score(list(hypotheses.values()), streams).score  # to the last digit
    assert scores.signature.startswith(str(metric.get_signature()))
    assert f"case:{'lc' if lowercase else 'mixed'}" in scores.signature
    single = BLEU(tokenize=tokenise, lowercase=lowercase, effective_order=True, force=True)
    for key, score in scores.items():
        assert score == single.sentence_score(hypotheses[key], references[key]).score
    # The resampled scores start from the same counts.
    whole = scores.total(scores.statistics.sum(0, keepdims=True), len(scores))
    assert whole == pytest.approx([scores.value], abs=1e-9)


@pytest.mark.parametrize("tokenise", ["none", "13a", "intl", "char", "zh"])
def test_sentences_that_are_odd(tokenise: str) -> None:
    hypotheses = {1: "", 2: " ", 3: "a-\nb  c\t", 4: "1-2 3.5, x", 5: "you & me &lt;b&gt; <skipped>", 6: "雪 in NYC"}
    references = {1: ["a"], 2: ["b", ""], 3: ["a b c"], 4: ["1 - 2 3.5 ,"], 5: ["you & me <b>"], 6: ["雪 in nyc", "x"]}
    scores = ss.metrics.sacrebleu(hypotheses, references, tokenise=tokenise)
    metric = BLEU(tokenize=tokenise, lowercase=True, force=True)
    streams = [
        [several[0] for several in references.values()],
        [(*several, None)[1] for several in references.values()],
    ]
    assert scores.value == metric.corpus_score(list(hypotheses.values()), streams).score
    assert scores.signature.startswith(f"{metric.get_signature()}|items:6")
    assert "nrefs:var" in scores.signature


def test_the_default_is_what_the_paper_reports() -> None:
    hypotheses, references = {0: "THE cat sat on it"}, {0: ["the Cat sat on it"]}
    scores = ss.metrics.sacrebleu(hypotheses, references)
    assert scores.value == pytest.approx(100)
    assert "case:lc|eff:no|tok:none" in scores.signature
    assert ss.metrics.sacrebleu(hypotheses, references, lowercase=False).value < 50


def test_the_interval_agrees_with_sacrebleus_bootstrap() -> None:
    hypotheses, references = corpus(9, 300)
    firsts = {key: several[:1] for key, several in references.items()}
    scores = ss.metrics.sacrebleu(hypotheses, firsts)
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    streams = [[one for (one,) in firsts.values()]]
    theirs = metric.corpus_score(list(hypotheses.values()), streams, n_bootstrap=4000)
    low, high = scores.interval(resamples=4000)
    # theirs._ci is half the width; at 4,000 resamples both are known to some hundredths of it.
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.1)


def test_tokens_are_joined() -> None:
    hypotheses, references = corpus(1)
    split = ss.metrics.sacrebleu(
        {key: text.split() for key, text in hypotheses.items()},
        {key: [text.split() for text in several] for key, several in references.items()},
    )
    assert dict(split) == dict(ss.metrics.sacrebleu(hypotheses, references))


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(ss.metrics.Absent, match="sacreBLEU needs the package sacrebleu, which is not installed"):
        ss.metrics.sacrebleu({1: "a"}, {1: ["a"]})


@pytest.mark.parametrize("error", [ImportError, RuntimeError, OSError])
def test_a_tokeniser_that_is_not_there_is_absent(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: BLEU, **how: object) -> None:
        raise error("\n\nPlease install this:\n\n  pip install that ")

    monkeypatch.setattr(BLEU, "__init__", missing)
    with pytest.raises(ss.metrics.Absent) as raised:
        ss.metrics.sacrebleu({1: "a"}, {1: ["a"]}, tokenise="ja-mecab")
    assert str(raised.value) == ("sacreBLEU has no tokeniser 'ja-mecab' here: Please install this: pip install that")


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"`tokenise` must be one of '13a', .*; it is '13b'"):
        ss.metrics.sacrebleu({1: "a"}, {1: ["a"]}, tokenise="13b")
    with pytest.raises(ValueError, match="1 hypotheses and 2 items with references are given: id 2 has none"):
        ss.metrics.sacrebleu({1: "a"}, {1: ["a"], 2: ["b"]})


def test_scoring_does_not_wait_for_torch() -> None:
    """All but CIDEr: `seqsmooth score` of translations takes a fifth of a second of the processor, not 1.5."""
    run = """
import sys
sys.modules["torch"] = None  # now nobody can import it
import seqsmooth as ss
from seqsmooth.metrics import suite
corpus = ss.metrics.bleu({1: "a dog"}, {1: ["a dog"]}), ss.metrics.rouge_l({1: "a dog"}, {1: ["a dog"]})
print(ss.metrics.sacrebleu({1: "a b c d e"}, {1: ["a b c d e"]}).value, *(scores.value > 0 for scores in corpus))
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == ["True", "True"]
    assert float(done.stdout.split()[0]) == pytest.approx(100)
