"""The bridges to Java: equal to pycocoevalcap, never hanging, and a sentence where something is not there."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import seqsmooth as ss
from seqsmooth.metrics import Absent, java, ptb
from seqsmooth.metrics.sentences import Segment
from seqsmooth.metrics.suite import align_segments, score

HYPOTHESES = {
    1: "a man rides a brown horse",
    2: "two dogs are playing in snow",
    3: "a plate of food ||| on the table",
    4: "the cat",
    5: "",
    6: "unrelated words entirely",
}
REFERENCES = {
    1: ["a man rides a brown horse", "someone riding horses"],
    2: ["two dogs play in the snow", "dogs running through snow", "a pair of puppies"],
    3: ["food on a table", "a dish is served on a table"],
    4: ["the cat"],
    5: ["an empty street"],
    6: ["people stand in a kitchen"],
}
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="no Java")


def fake(folder: Path, body: str) -> str:
    """A `java` that does something else; returns a path on which it is found first."""
    program = folder / "java"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def use(body: str) -> None:
        monkeypatch.setenv("PATH", fake(tmp_path, body))

    return use


@needs_java
@pytest.mark.slow
def test_meteor_is_pycocoevalcaps() -> None:
    from pycocoevalcap.meteor.meteor import Meteor

    scores = ss.metrics.meteor(HYPOTHESES, REFERENCES)
    theirs = Meteor()
    value, each = theirs.compute_score(REFERENCES, {key: [text] for key, text in HYPOTHESES.items()})
    theirs.meteor_p.stdout.close()
    theirs.meteor_p.stderr.close()
    assert scores.value == pytest.approx(value, abs=1e-9)
    assert list(scores.values()) == pytest.approx(each, abs=1e-9)
    # What the intervals are made from gives the same numbers: of each item, and of the sum.
    assert scores.total(scores.statistics, 1) == pytest.approx(each, abs=1e-9)
    assert scores.total(scores.statistics.sum(0, keepdims=True), 6) == pytest.approx([value], abs=1e-9)
    low, high = scores.interval()
    assert low < value < high


@needs_java
@pytest.mark.slow
def test_ptb_tokenisation_is_pycocoevalcaps() -> None:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    texts = ["A man's horse (brown), isn't it?", "Two dogs -- playing; in the snow...", 'He said "go!"', "A caf\u00e9."]
    theirs = PTBTokenizer().tokenize({place: [{"caption": text}] for place, text in enumerate(texts)})
    assert [" ".join(words) for words in ptb.tokenise(texts)] == [theirs[place][0] for place in range(len(texts))]
    assert ptb.tokenise(["", "a\nb", "."]) == [[], ["a", "b"], []]


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Absent, match=r"METEOR needs Java: there is no `java` on the path, nor in JAVA_HOME."):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake(tmp_path / "bin", "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.program("METEOR") == str(tmp_path / "bin" / "java")


def test_without_the_jar_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Absent, match=r"METEOR needs none.jar, which this pycocoevalcap has not."):
        java.jar("METEOR", "meteor", "none.jar")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Absent, match=r"METEOR needs the package pycocoevalcap: `pip install pycocoevalcap`."):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)


def test_one_that_hangs_is_stopped(fake_java) -> None:
    fake_java("time.sleep(600)")
    start = time.perf_counter()
    with pytest.raises(Absent, match=r"METEOR took longer than 0.5 s and was stopped."):
        ss.metrics.meteor(HYPOTHESES, REFERENCES, timeout=0.5)
    with pytest.raises(Absent, match=r"PTB tokenisation took longer than 0.5 s and was stopped."):
        ptb.tokenise(["a"], timeout=0.5)
    assert time.perf_counter() - start < 30
    assert not java._running


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
def test_there_may_be_all_the_time_in_the_world(timeout: float, fake_java, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    fake_java("time.sleep(0.3); print('answer', flush=True)")  # by then a clock that cannot be set has stopped
    with java.conversation("METEOR", [java.program("METEOR")], folder=Path.cwd(), timeout=timeout) as talk:
        assert talk.ask([], 1) == ["answer"]
    assert not raised


def test_one_that_crashes_is_quoted(fake_java) -> None:
    fake_java("print('Error: no memory', file=sys.stderr); sys.exit(1)")
    with pytest.raises(Absent, match=r"METEOR's Java ended after 0 of 6 answers \(Error: no memory\)."):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)
    with pytest.raises(Absent, match=r"PTB tokenisation's Java ended with the status 1 \(Error: no memory\)."):
        ptb.tokenise(["a"])


def test_one_that_talks_nonsense_is_refused(fake_java) -> None:
    fake_java("for line in sys.stdin: print('what?\\n' * 9, flush=True)")
    with pytest.raises(Absent, match="METEOR's Java answered with something else than numbers"):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)
    fake_java("for line in sys.stdin: print('1\\n1\\n1', flush=True)")
    with pytest.raises(Absent, match=r"something else than numbers \(1 counts an item, not 23\)"):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)
    fake_java("print('too'), print('many')")
    with pytest.raises(Absent, match="a line for each line, but made 2 of 1"):
        ptb.tokenise(["a"])


def test_a_program_that_cannot_start_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Absent, match=r"METEOR's Java did not start: No such file or directory."):
        ss.metrics.meteor(HYPOTHESES, REFERENCES)


def test_full_pipes_are_no_deadlock(fake_java) -> None:
    # More than a pipe holds, both ways at once, and on the error output too.
    body = "sys.stderr.write('x' * 1000000)\nfor line in sys.stdin: print('1 ' * 30000, flush=True)"
    fake_java(body)
    command = [java.program("METEOR")]
    with java.conversation("METEOR", command, folder=Path.cwd(), timeout=60) as talk:
        told = talk.ask(["y" * 100_000] * 50, 50)
    assert [len(line.split()) for line in told] == [30000] * 50


def test_nothing_outlives_python(tmp_path: Path) -> None:
    path = fake(tmp_path, "time.sleep(600)")
    code = """
from pathlib import Path
from seqsmooth.metrics import java
talk = java.conversation("METEOR", [java.program("METEOR")], folder=Path.cwd(), timeout=600)
print(talk.__enter__().process.pid, flush=True)
"""
    surroundings = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=surroundings
    )
    pid = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


def corenlp(folder: Path) -> Path:
    for name in ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"):
        (folder / name).touch()
    return folder


# What the SPICE jar writes: an entry an image, not in order, and the categories beside the whole.
SPICE = """
given = json.load(open(sys.argv[sys.argv.index("edu.anu.spice.SpiceScorer") + 1]))
made = [{"image_id": item["image_id"], "scores": {"All": {"f": VALUE}}} for item in reversed(given)]
json.dump(made, open(sys.argv[sys.argv.index("-out") + 1], "w"))
"""


def test_spice_reads_what_its_jar_writes(fake_java, tmp_path: Path) -> None:
    fake_java(SPICE.replace("VALUE", 'len(item["test"].split()) / 10 + len(item["refs"]) / 100'))
    scores = ss.metrics.spice(HYPOTHESES, REFERENCES, corenlp=corenlp(tmp_path))
    expected = [len(HYPOTHESES[key].split()) / 10 + len(REFERENCES[key]) / 100 for key in REFERENCES]
    assert list(scores.values()) == pytest.approx(expected)
    assert scores.value == pytest.approx(sum(expected) / 6)


@pytest.mark.parametrize("value", ["None", "float('nan')", "'x'", "{}"])
def test_spice_without_a_number_is_absent(fake_java, tmp_path: Path, value: str) -> None:
    fake_java(SPICE.replace("VALUE", value))
    with pytest.raises(Absent, match="SPICE's Java answered with something else than scores"):
        ss.metrics.spice(HYPOTHESES, REFERENCES, corenlp=corenlp(tmp_path))


def test_spice_without_corenlp_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORENLP_HOME", str(tmp_path))
    with pytest.raises(Absent) as raised:
        ss.metrics.spice(HYPOTHESES, REFERENCES)
    rule = "SPICE needs Stanford CoreNLP 3.6.0 in CORENLP_HOME: stanford-corenlp-3.6.0.jar is not in"
    assert str(raised.value) == f"{rule} {tmp_path}."


def test_an_absent_metric_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CORENLP_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    hypotheses = {str(key): Segment(text) for key, text in HYPOTHESES.items()}
    references = {str(key): [Segment(text) for text in several] for key, several in REFERENCES.items()}
    scores, absent = score(hypotheses, references, ["meteor", "cider", "spice", "bleu-2"])
    assert list(scores) == ["cider", "bleu-2"]
    assert list(absent) == ["meteor", "spice"]
    assert scores["bleu-2"].value == ss.metrics.bleu(HYPOTHESES, REFERENCES, 2).value
    assert json.dumps(absent).count("needs") == 2


@needs_java
@pytest.mark.slow
def test_both_tokenisers_give_one_corpus() -> None:
    texts = ["A man's horse (brown), isn't it?", "Two dogs -- playing; in the snow...", 'He said "go!" to AT&T, $5.']
    hypotheses = {str(place): Segment(text) for place, text in enumerate(texts)}
    references = {str(place): [Segment(text.upper()), Segment("A dog.")] for place, text in enumerate(texts)}
    ours, theirs = (align_segments(hypotheses, references, how) for how in ("ptb", "ptb-jar"))
    assert ours == theirs
    assert ours.hypotheses[0][:3] == ("a", "man", "'s")
