from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import seqsmooth as ss
from seqsmooth.cli import demo
from seqsmooth.cli.main import VERBS, main
from seqsmooth.data.scenes import BOS, EOS, PAD, Scenes, make_scenes
from seqsmooth.rewards import Cider, DocumentFrequencies
from seqsmooth.version import __version__


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return make_scenes(0, train=40, validation=10, test=12)


@pytest.fixture(scope="module")
def captioner(scenes: Scenes) -> demo.Captioner:
    return demo.train(ss.mle(specials=demo.SPECIALS), scenes.train, len(scenes.vocabulary), seed=0, steps=60)


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"seqsmooth {__version__}\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "seqsmooth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"seqsmooth {__version__}\n"


@pytest.mark.parametrize("verb", ["demos", "train!"])
def test_an_unknown_verb_is_an_error_that_lists_the_verbs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert repr(verb) in told
    assert all(repr(known) in told for known in VERBS)


def test_no_verb_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "VERB" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)])
def test_help_is_there_for_every_verb(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*verb, "--help"])
    assert stopped.value.code == 0
    assert "usage: seqsmooth" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seconds", "0"], "`seconds` must be greater than 0, but is 0.0 instead."),
        (["--seeds", "0"], "`seeds` must be 1 or more, but is 0 instead."),
        (["--seed", "-1"], "`seed` must be 0 or more, but is -1 instead."),
    ],
)
def test_a_wrong_option_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *options]) == 2
    assert capsys.readouterr().err == f"seqsmooth: error: {sentence}\n"


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--minutes", "1"])
    assert stopped.value.code == 2


def test_the_demo_prints_a_row_and_a_signature_for_each_loss(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    assert main(["demo", "--seconds", "0.2", "--seeds", "2"]) == 0
    assert torch.get_num_threads() == threads
    told = capsys.readouterr().out
    compared = demo.losses(make_scenes(0, train=demo.TRAINING_SCENES))
    number = r"\d+\.\d{3} \+- \d+\.\d{3}"
    for name, objective in compared.items():
        assert re.search(rf"^{re.escape(name)} +{number} +{number} +\d+ +\d+\.\d$", told, re.MULTILINE), name
        assert objective.signature() in told
        assert len(re.findall(rf"^  seed [01]  {re.escape(name)} +\d+\.\d s$", told, re.MULTILINE)) == 2
    assert "more would not fit in the time given" in told
    assert "\r" not in told


def test_one_run_has_no_spread(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0.1", "--seeds", "1"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^MLE +\d+\.\d{3} +\d+\.\d{3} +\d+ +\d+\.\d$", told, re.MULTILINE)
    assert "better in" in told


def test_on_a_terminal_the_line_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["demo", "--seconds", "0.1", "--seeds", "1"]) == 0
    told = capsys.readouterr().out
    assert "\r  seed 0  MLE" in told
    assert "[####################] 100%" in told


def test_the_same_seed_trains_the_same_captioner(scenes: Scenes) -> None:
    objective = demo.losses(scenes)["Tok-Seq, lazy"]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = (
        demo.train(objective, scenes.train, len(scenes.vocabulary), seed=seed, steps=3) for seed in (5, 5, 6)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(first.output.weight, other.output.weight)


def test_only_the_loss_differs(scenes: Scenes) -> None:
    # A loss that smooths nothing, written as Tok-Seq, must follow MLE from the first weights to the last.
    vectors = torch.eye(len(scenes.vocabulary))
    sequence, token = ss.Hamming(tau=0.3, pool="refs", alpha=0.0), ss.Similarity(vectors, tau=0.2, alpha=0.0)
    unsmoothing = ss.Objective(sequence=sequence, token=token, specials=demo.SPECIALS)
    plain = ss.mle(specials=demo.SPECIALS)
    ours, mle = (
        demo.train(objective, scenes.train, len(scenes.vocabulary), seed=2, steps=4)
        for objective in (unsmoothing, plain)
    )
    for name, value in ours.state_dict().items():
        assert torch.allclose(value, mle.state_dict()[name], atol=1e-4), name


def test_training_learns(scenes: Scenes, captioner: demo.Captioner) -> None:
    untrained = demo.Captioner(scenes.train.features.shape[1], len(scenes.vocabulary))
    before, after = demo.judge(untrained.eval(), scenes.train), demo.judge(captioner, scenes.train)
    assert after.nll < 0.5 * before.nll
    assert after.cider > before.cider + 0.2


def test_greedy_captions_are_the_best_next_words(scenes: Scenes, captioner: demo.Captioner) -> None:
    length = scenes.test.captions.shape[2]
    written = captioner.write(scenes.test.features, length)
    inputs = torch.cat([torch.full_like(written[:, :1], BOS), written[:, :-1]], 1)
    with torch.no_grad():
        best = captioner(scenes.test.features, inputs.unsqueeze(1)).squeeze(1).argmax(-1)
    for caption, choice in zip(written.tolist(), best.tolist(), strict=True):
        end = caption.index(EOS) + 1 if EOS in caption else length
        assert caption[:end] == choice[:end]
        assert set(caption[end:]) <= {PAD}


def test_each_copy_of_a_scene_is_decoded_alone(scenes: Scenes, captioner: demo.Captioner) -> None:
    captions = scenes.test.captions
    with torch.no_grad():
        together = captioner(scenes.test.features, captions)
        alone = torch.stack([captioner(scenes.test.features, captions[:, r : r + 1])[:, 0] for r in range(5)], 1)
    assert torch.allclose(together, alone, atol=1e-5)


def test_the_judgement_is_what_it_says(scenes: Scenes, captioner: demo.Captioner) -> None:
    outcome = demo.judge(captioner, scenes.test, seconds=1.5)
    assert outcome.seconds == 1.5
    # The likelihood, one token after the other.
    total, count = 0.0, 0
    with torch.no_grad():
        for features, five in zip(scenes.test.features, scenes.test.captions.tolist(), strict=True):
            for caption in five:
                words = [word for word in caption if word != PAD]
                scores = captioner(features[None], torch.tensor([[[BOS, *words[:-1]]]]))[0, 0].log_softmax(-1)
                total -= sum(float(scores[place, word]) for place, word in enumerate(words))
                count += len(words)
    assert outcome.nll == pytest.approx(total / count, abs=1e-4)
    # The words and the reward, from sentences.
    index = {word: i for i, word in enumerate(scenes.vocabulary)}
    told = [scenes.words(ids).split() for ids in outcome.captions.tolist()]
    assert outcome.words == len({word for words in told for word in words})
    references = [
        [[index[w] for w in scenes.words(ids).split()] for ids in five] for five in scenes.test.captions.tolist()
    ]
    reward = Cider(DocumentFrequencies.build(references))
    scores = []
    for words, five in zip(told, references, strict=True):
        longest = max(map(len, five))
        padded = torch.tensor([[*caption, *[-1] * (longest - len(caption))] for caption in five])
        scores.append(float(reward(torch.tensor([[[index[word] for word in words]]]), padded[None])))
    assert outcome.cider == pytest.approx(sum(scores) / len(scores), abs=1e-4)
