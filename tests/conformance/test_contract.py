"""The kit finds each fault that was put into a loss, and only that one; and sound losses have none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import seqsmooth as ss
from seqsmooth.conformance import RULES, ConformanceReport, Subject, examine
from seqsmooth.conformance.exact import case, exact
from seqsmooth.conformance.rules import Deviation

CPU = torch.device("cpu")


def verdicts(report: ConformanceReport) -> dict[str, str]:
    return {result.rule: result.verdict for result in report.results}


def sound(
    logits: Tensor,  # (N, V)
    labels: Tensor,  # (N,)
    *,
    smoothing: float = 0.0,
    num_items: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Label smoothing written to the contract by hand, without anything of ours."""
    kept = labels != -100
    log_probs = logits.float().masked_fill(~kept.unsqueeze(-1), 0).log_softmax(-1)
    own = -log_probs.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    losses = own if smoothing == 0 else (1 - smoothing) * own - smoothing * log_probs.mean(-1)
    losses = losses * kept
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    return total / (kept.sum().clamp_min(1) if num_items is None else num_items)


def of(function: Callable[..., Tensor], **words: object) -> Subject:
    options: dict[str, object] = {"smoothing": "smoothing", "items": "num_items", "reduction": "reduction"}
    return Subject("a loss", function, **(options | words))  # type: ignore[arg-type]


def test_a_sound_loss_has_no_fault() -> None:
    report = examine(of(sound))
    assert [result for result in report.results if result.verdict not in ("holds", "absent")] == []
    assert [result.rule for result in report.results if result.verdict == "absent"] == ["shift"]


def counts_padding(logits: Tensor, labels: Tensor, **words: object) -> Tensor:
    return sound(logits, labels, reduction="sum") / labels.numel()


def forgets_the_items(logits: Tensor, labels: Tensor, *, num_items: Tensor | None = None, **words: object) -> Tensor:
    return sound(logits, labels, **words)  # type: ignore[arg-type]


def spreads_over_others(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, **words: object) -> Tensor:
    size = logits.shape[-1]
    return sound(logits, labels, smoothing=smoothing * size / (size - 1), **words)  # type: ignore[arg-type]


def multiplies_by_the_mask(logits: Tensor, labels: Tensor, *, reduction: str = "mean", **words: object) -> Tensor:
    losses = F.cross_entropy(logits.float(), labels.clamp_min(0), reduction="none") * (labels != -100)
    return losses if reduction == "none" else losses.sum() / (labels != -100).sum().clamp_min(1)


class Unscaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, reduction):  # type: ignore[no-untyped-def]
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            loss = sound(leaf, labels, reduction=reduction)
            (ctx.slope,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach()

    @staticmethod
    def backward(ctx, above):  # type: ignore[no-untyped-def]
        return ctx.slope, None, None


def forgets_what_comes_from_above(logits: Tensor, labels: Tensor, *, reduction: str = "mean") -> Tensor:
    return Unscaled.apply(logits, labels, reduction)  # type: ignore[no-any-return]


def smooths_through_a_product(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
    kept = (labels != -100).unsqueeze(-1)
    log_probs = logits.float().masked_fill(~kept, 0).log_softmax(-1)
    one = F.one_hot(labels.clamp_min(0), logits.shape[-1])
    target = (1 - smoothing) * one + smoothing / logits.shape[-1]
    return -(target * log_probs * kept).sum() / kept.sum().clamp_min(1)


def detaches_the_smoothing(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
    part = sound(logits.detach(), labels, smoothing=smoothing)
    return (1 - smoothing) * (sound(logits, labels) - sound(logits.detach(), labels)) + part


def sums_in_half(logits: Tensor, labels: Tensor) -> Tensor:
    kept = labels != -100
    losses = F.cross_entropy(logits.masked_fill(~kept.unsqueeze(-1), 0), labels.clamp_min(0), reduction="none")
    return (losses * kept).sum() / kept.sum().clamp_min(1)


def rounds_to_eight_bits(logits: Tensor, labels: Tensor) -> Tensor:
    narrow = logits.dtype == torch.bfloat16
    return sound(logits.to(torch.float8_e4m3fn) if narrow else logits, labels)


def writes_over_its_input(logits: Tensor, labels: Tensor) -> Tensor:
    loss = sound(logits.clone(), labels)
    logits.detach().data.zero_()
    return loss


FAULTS: list[tuple[Callable[..., Tensor], dict[str, object], set[str]]] = [
    (counts_padding, {"smoothing": None, "items": None, "reduction": None}, {"zero smoothing", "gradient"}),
    (forgets_the_items, {}, {"micro-batches"}),
    (spreads_over_others, {}, {"label smoothing"}),
    (multiplies_by_the_mask, {"smoothing": None, "items": None}, {"garbage where ignored"}),
    (forgets_what_comes_from_above, {"smoothing": None, "items": None}, {"gradient", "each position"}),
    (smooths_through_a_product, {"items": None, "reduction": None}, {"forbidden tokens"}),
    (detaches_the_smoothing, {"items": None, "reduction": None}, {"slope", "label smoothing"}),
    (sums_in_half, {"smoothing": None, "items": None, "reduction": None}, {"long sums in fp16"}),
    (rounds_to_eight_bits, {"smoothing": None, "items": None, "reduction": None}, {"half precision"}),
    (writes_over_its_input, {"smoothing": None, "items": None, "reduction": None}, {"inputs kept"}),
]


@pytest.mark.parametrize(("function", "words", "wanted"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_by_its_rule(
    function: Callable[..., Tensor], words: dict[str, object], wanted: set[str]
) -> None:
    broken = {result.rule for result in examine(of(function, **words)).failures}
    assert wanted <= broken
    if len(wanted) == 1 and function is not multiplies_by_the_mask:
        assert broken == wanted


def ours(logits: Tensor, labels: Tensor, **words: object) -> Tensor:
    return ss.mle()(logits, labels, **words).total  # type: ignore[no-any-return]


def shifted(logits: Tensor, labels: Tensor) -> Tensor:
    return ours(logits[:, :-1], labels[:, 1:])


def shifted_the_other_way(logits: Tensor, labels: Tensor) -> Tensor:
    return ours(logits[:, 1:], labels[:, :-1])


def test_the_shift_is_told_from_none_and_from_the_other_way() -> None:
    plain = {"call": "sequence", "shifts": True}
    assert verdicts(examine(Subject("right", shifted, **plain)))["shift"] == "holds"  # type: ignore[arg-type]
    assert examine(Subject("right", shifted, **plain)).failures == ()  # type: ignore[arg-type]
    for wrong in (ours, shifted_the_other_way):
        assert verdicts(examine(Subject("wrong", wrong, **plain)))["shift"] == "fails"  # type: ignore[arg-type]


def test_a_loss_that_raises_fails_that_rule_and_says_why() -> None:
    def narrow(logits: Tensor, labels: Tensor) -> Tensor:
        if logits.dtype != torch.float32:
            raise TypeError("only float32")
        return sound(logits, labels)

    failures = {result.rule: result.detail for result in examine(Subject("narrow", narrow)).failures}
    assert failures == {"half precision": "TypeError: only float32", "long sums in fp16": "TypeError: only float32"}


def test_a_wrong_way_of_calling_is_no_finding() -> None:
    with pytest.raises(ValueError, match="`torch` cannot be called as 'sequence': it raises RuntimeError: Expected"):
        examine(Subject("torch", F.cross_entropy, "sequence"))
    with pytest.raises(ValueError, match=r"^`many` returns a tensor of shape \(15,\); it must return one number\.$"):
        examine(Subject("many", lambda logits, labels: sound(logits, labels, reduction="none")))


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), smoothing=st.sampled_from([0.0, 0.1, 0.5]))
def test_the_formula_is_that_of_torch(seed: int, smoothing: float) -> None:
    batch = case(CPU, seed)
    leaf = batch.logits.double().requires_grad_()
    loss = F.cross_entropy(leaf.flatten(0, 1), batch.labels.flatten(), label_smoothing=smoothing)
    (slope,) = torch.autograd.grad(loss, leaf)
    ours, our_slope = exact(batch, smoothing)
    torch.testing.assert_close(ours, loss.detach())
    torch.testing.assert_close(our_slope, slope)


def test_what_is_not_a_number_is_never_good_enough() -> None:
    assert not Deviation("it", math.nan, math.inf).is_small
    assert str(Deviation("it", math.nan, 1.0)) == "it is NaN or infinite"
    assert str(Deviation("it", 0.25, 0.1)) == "it is off by 2.5e-01, at most 1e-01 allowed"


def test_every_rule_says_what_it_asks_in_one_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.says.endswith(".")
        assert "\n" not in rule.says
