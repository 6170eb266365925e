from __future__ import annotations

import pytest
import torch

from benchmarks import step


@pytest.mark.parametrize("objective", step.OBJECTIVES)
@pytest.mark.parametrize("model", step.MODELS)
def test_a_step_can_be_timed(model: step.ModelName, objective: step.ObjectiveName) -> None:
    bench = step.build(model, objective, device="cpu", precision="fp32", size=step.TINY)
    run = bench.capture()
    first, second = bench.eager().loss.nll, run().loss.nll
    assert first.isfinite()
    assert first != second  # it learned, or drew anew


def test_captions_are_whole() -> None:
    size = step.SIZES["show_tell"]
    made = step.captions(size, 500, torch.Generator().manual_seed(0))
    assert made.shape == (500, 17)
    ends = (made == step.EOS).int()
    assert (ends.sum(1) == 1).all()
    after = ends.cumsum(1).roll(1, 1)
    after[:, 0] = 0
    assert ((made == step.PAD) == after.bool()).all()
    words = made[made > step.UNK]
    assert words.max() < size.vocabulary
    share = (words < 14).float().mean()  # the ten most frequent words: ln 11 / ln 9796 of all by Zipf's law
    assert share == pytest.approx(0.26, abs=0.03)


def test_sizes_are_the_papers() -> None:
    batch = step.make_batch("show_tell", step.SIZES["show_tell"], torch.Generator().manual_seed(0), torch.device("cpu"))
    assert [tuple(value.shape) for value in batch.tensors().values()] == [(50, 2048), (50, 17), (50, 5, 17)]
    assert torch.equal(batch.targets, batch.references[:, 0])


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="`model` must be one of 'show_tell', 'top_down', 'rnnsearch'"):
        step.build("transformer", "mle")  # type: ignore[arg-type]
