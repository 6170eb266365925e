from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

import seqsmooth as ss
from seqsmooth.cli.main import main
from seqsmooth.decoding import HypothesisFile
from seqsmooth.decoding.hypotheses import Hypothesis
from seqsmooth.metrics import scorecard as reports

HYPOTHESES = {"1": "a man rides a horse", "2": "two dogs in snow", "3": "a cat sleeps on a bed", "4": "a red bus"}
WORSE = {"1": "a man", "2": "dogs dogs", "3": "a cat", "4": "a bus bus"}
REFERENCES = {
    "1": ["a man rides a brown horse", "a person on a horse"],
    "2": ["two dogs play in the snow", "dogs in snow"],
    "3": ["a cat sleeps on the bed", "the cat is on a bed"],
    "4": ["a red bus on a street", "a big red bus"],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, held in (("h", HYPOTHESES), ("w", WORSE)):
        results = [{"image_id": int(key), "caption": text} for key, text in held.items()]
        (tmp_path / f"{name}.json").write_text(json.dumps(results))
        (tmp_path / f"{name}.txt").write_text("\n".join(held.values()) + "\n")
    annotations = [{"image_id": int(key), "caption": one} for key, several in REFERENCES.items() for one in several]
    (tmp_path / "r.json").write_text(json.dumps({"annotations": annotations}))
    for place in (0, 1):
        (tmp_path / f"r{place}.txt").write_text("".join(f"{several[place]}\n" for several in REFERENCES.values()))
    return tmp_path


def test_captions(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    command = ["score", "h.json", "r.json", "--metrics", "bleu-1, bleu-4,cider,rouge-l", "--json", "s.json"]
    command += ["--tokenise", "none"]
    assert main([*command, "--export", "e.json"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["metric", "value", "95", "%", "interval", "signature"]
    held = json.loads((files / "s.json").read_text())
    assert held["kind"] == reports.KIND
    expected = {
        "bleu-1": ss.metrics.bleu(HYPOTHESES, REFERENCES, 1),
        "bleu-4": ss.metrics.bleu(HYPOTHESES, REFERENCES),
        "cider": ss.metrics.cider(HYPOTHESES, REFERENCES),
        "rouge-l": ss.metrics.rouge_l(HYPOTHESES, REFERENCES),
    }
    assert list(held["scores"]) == list(expected)
    for line, (name, scores) in zip(told[1:], expected.items(), strict=True):
        low, high = scores.interval()
        value, first, last = (f"{100 * number:.2f}" for number in (scores.value, low, high))
        assert line.split() == [scores.metric, value, first, "to", last, scores.signature]
        entry = held["scores"][name]
        assert (entry["value"], entry["low"], entry["high"]) == (scores.value, low, high)
        assert entry["signature"] == scores.signature
        assert entry["each"] == dict(scores)
    exported = json.loads((files / "e.json").read_text())
    assert {str(entry["image_id"]): entry["caption"] for entry in exported} == HYPOTHESES
    assert sorted(path.name for path in files.iterdir() if path.name.startswith(".")) == []


def test_what_decode_wrote(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    words = [*HYPOTHESES.values(), *WORSE.values()]
    with HypothesisFile("d.jsonl", [int(key) for key in HYPOTHESES], text=lambda tokens: words[tokens[0]]) as file:
        for place, name in enumerate(file.remaining):
            file.add(name, [Hypothesis((place,), -1.0, -1.0, True), Hypothesis((place + 4,), -2.0, -2.0, True)])
    command = ["--metrics", "cider,bleu-4", "--tokenise", "none"]
    assert main(["score", "d.jsonl", "r.json", *command, "--export", "e.json"]) == 0
    ours = capsys.readouterr().out
    assert main(["score", "h.json", "r.json", *command]) == 0
    assert capsys.readouterr().out == ours
    assert (files / "e.json").read_text() == (files / "h.json").read_text() + "\n"


@pytest.mark.parametrize("option", ["--json", "--export"])
def test_what_is_read_is_not_written(
    option: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    before = (files / "r.json").read_bytes()
    assert main(["score", "h.json", "r.json", "--metrics", "cider", option, str(files / "r.json")]) == 2
    assert f"`{option[2:]}` must be another file than those that are read" in capsys.readouterr().err
    assert (files / "r.json").read_bytes() == before


def test_two_files_are_not_written_as_one(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    both = ["--json", "out.json", "--export", str(files / "out.json")]
    assert main(["score", "h.json", "r.json", "--metrics", "cider", *both]) == 2
    assert "`export` must be another file than those that are read or written; it is " in capsys.readouterr().err
    assert not (files / "out.json").exists()


def test_a_subset_says_what_its_ids_count_from(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    references = (files / "r0.txt").read_text().splitlines()
    lines = [json.dumps({"id": place, "text": references[place]}) for place in (1, 2)]
    (files / "part.jsonl").write_text("\n".join(lines))
    arguments = ["score", "part.jsonl", "r0.txt", "--subset"]
    assert main(arguments) == 2
    assert "`first` must be 0 or 1, the id of the first line of r0.txt; it is not given" in capsys.readouterr().err
    assert main([*arguments, "--first", "0"]) == 0
    assert " 100.00 " in capsys.readouterr().out
    assert main([*arguments, "--first", "1"]) == 0
    assert " 100.00 " not in capsys.readouterr().out


def test_translations_and_a_paired_test(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = [str(files / "r0.txt"), str(files / "r1.txt")]
    json_file = files / "s.json"
    arguments = ["score", str(files / "h.txt"), *references, "--against", str(files / "w.txt"), "--json"]
    assert main([*arguments, str(json_file), "--seed", "3", "--resamples", "200"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "difference (p)" in told[0]
    assert len(told) == 2
    good = ss.metrics.sacrebleu(HYPOTHESES, REFERENCES)
    bad = ss.metrics.sacrebleu(WORSE, REFERENCES)
    assert told[1].endswith(good.signature)
    assert f"{good.value:.2f} " in told[1]
    made = good.against(bad, resamples=200, seed=3)
    assert f"{made.difference:+.2f} ({made.p_value:.3f})" in told[1]
    other = json.loads(json_file.read_text())["scores"]["sacrebleu"]["other"]
    assert other["value"] == bad.value
    assert (other["difference"], other["low"], other["high"]) == (made.difference, made.low, made.high)
    assert other["p_value"] == made.p_value


def test_scores_come_back_from_their_file(files: Path) -> None:
    for name in ("h", "w"):
        arguments = ["score", str(files / f"{name}.txt"), str(files / "r0.txt"), "--json", str(files / f"{name}.out")]
        assert main([*arguments, "--metrics", "bleu-2,cider,sacrebleu", "--seed", "5", "--resamples", "50"]) == 0
    good, bad = (reports.Scorecard.load(files / f"{name}.out") for name in ("h", "w"))
    firsts = {key: several[:1] for key, several in REFERENCES.items()}
    fresh = {
        "bleu-2": partial(ss.metrics.bleu, order=2),
        "cider": ss.metrics.cider,
        "sacrebleu": ss.metrics.sacrebleu,
    }
    assert list(good.scores) == list(fresh)
    for name, metric in fresh.items():
        first, second = metric(HYPOTHESES, firsts), metric(WORSE, firsts)
        assert dict(good.scores[name]) == dict(first)
        assert good.intervals[name] == first.interval(resamples=50, seed=5)
        assert good.scores[name].against(bad.scores[name]) == first.against(second)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ("{", "must be a file written by `seqsmooth score ... --json`; it is damaged or something else."),
        ('{"kind": "x"}', "must be a file written by `seqsmooth score ... --json`; it is damaged or something else"),
        (None, "must be a file that can be read; it is not: No such file or directory."),
    ],
)
def test_other_files_are_no_scores(tmp_path: Path, held: str | None, sentence: str) -> None:
    path = tmp_path / "s.json"
    if held is not None:
        path.write_text(held)
    with pytest.raises(ValueError, match=re.escape(f"`{path}` {sentence}")):
        reports.Scorecard.load(path)


@pytest.mark.parametrize("how", [None, "ptb", "ptb-jar"])
def test_cocos_annotations_are_tokenised(how: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if how == "ptb-jar" and shutil.which("java") is None:
        pytest.skip("no Java")
    asked = [] if how is None else ["--tokenise", how]
    (tmp_path / "h.json").write_text('[{"image_id": 1, "caption": "a man \'s horse"}]')
    (tmp_path / "r.json").write_text('{"annotations": [{"image_id": 1, "caption": "A man\'s brown horse!"}]}')
    assert main(["score", str(tmp_path / "h.json"), str(tmp_path / "r.json"), "--metrics", "rouge-l", *asked]) == 0
    # Four of the five words of "a man 's brown horse".
    value = 100 * (1 + 1.2**2) * 0.8 / (0.8 + 1.2**2)
    assert f" {value:.2f} " in capsys.readouterr().out


def test_lower_case_and_13a(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "H.txt").write_text("".join(f"{text.upper()}\n" for text in HYPOTHESES.values()))
    arguments = ["score", str(files / "H.txt"), str(files / "r0.txt"), "--tokenise", "lower"]
    assert main([*arguments, "--metrics", "bleu-1,sacrebleu,sacrebleu-13a"]) == 0
    bleu, lower, mixed = capsys.readouterr().out.splitlines()[1:]
    firsts = {key: several[:1] for key, several in REFERENCES.items()}
    assert bleu.split()[1] == f"{100 * ss.metrics.bleu(HYPOTHESES, firsts, 1).value:.2f}"
    assert "tok:lower" in bleu
    assert f"{ss.metrics.sacrebleu(HYPOTHESES, firsts).value:.2f}" in lower
    assert "case:mixed|eff:no|tok:13a" in mixed
    assert " 0.00 " in mixed  # the text as it is: in capitals nothing matches


def test_what_is_absent_is_said_below_the_table(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(files))
    monkeypatch.setenv("CORENLP_HOME", str(files))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    arguments = ["score", str(files / "h.json"), str(files / "r.json")]
    assert main([*arguments, "--tokenise", "none"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == (
        ["metric", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D", "METEOR", "SPICE"]
    )
    assert told[-2] == "METEOR needs Java: there is no `java` on the path, nor in JAVA_HOME."
    assert main([*arguments, "--tokenise", "none", "--metrics", "meteor"]) == 2
    sentence = "METEOR needs Java: there is no `java` on the path, nor in JAVA_HOME."
    assert capsys.readouterr().err == f"seqsmooth: error: {sentence}\n"
    assert (
        main([*arguments, "--metrics", "bleu-4"]) == 0
    )  # COCO's annotations are not tokenised, but that needs no Java
    assert main([*arguments, "--tokenise", "ptb-jar"]) == 2
    assert "PTB tokenisation needs Java" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--metrics", "blue-4"], "`metrics` must be one of 'bleu-1', "),
        (["--metrics", ","], "`metrics` must be at least one name; it is ','."),
        (["--tokenise", "moses"], "`tokenise` must be one of 'none', 'lower', 'ptb', 'ptb-jar'; it is "),
        (["--confidence", "2"], "`confidence` must be between 0 and 1; it is 2.0."),
        (["--resamples", "0"], "`resamples` must be 1 or more; it is 0."),
        (["--timeout", "0"], "`timeout` must be greater than 0; it is 0.0."),
        (["--against", "none.txt"], "`hypotheses` must be a file that is there; it is none.txt."),
        (["--json", "none/s.json"], "`json` must be in a folder that is there; it is none/s.json."),
    ],
)
def test_mistakes_are_one_sentence(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(files)
    assert main(["score", "h.json", "r.json", "--tokenise", "none", *options]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"seqsmooth: error: {sentence}")
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_misaligned_files_leave_the_old_scores(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "short.txt").write_text("two dogs in snow\na cat sleeps on a bed\na red bus\n")
    (files / "s.json").write_text("before")
    arguments = ["score", str(files / "short.txt"), str(files / "r0.txt"), "--json", str(files / "s.json")]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert "short.txt has 3 sentences" in told
    assert "r0.txt has 4: the first suspicious line is 1." in told
    assert (files / "s.json").read_text() == "before"


def test_a_file_is_written_whole_or_not_at_all(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    (files / "s.json").write_text("before")
    arguments = ["score", str(files / "h.json"), str(files / "r.json"), "--metrics", "bleu-4", "--tokenise", "lower"]
    assert main([*arguments, "--json", str(files / "s.json")]) == 2
    assert "must be a file that can be written; it is not: No space left on device." in capsys.readouterr().err
    assert (files / "s.json").read_text() == "before"
    assert not [path for path in files.iterdir() if path.name.startswith(".")]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    assert "  seqsmooth score captions.json dataset_coco.json" in capsys.readouterr().out
