"""The contract of a token-level loss: its rules, and how a loss is examined."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from seqsmooth.conformance import rules
from seqsmooth.conformance.exact import case
from seqsmooth.conformance.rules import Deviation
from seqsmooth.conformance.subject import Subject
from seqsmooth.ops import checks
from seqsmooth.packages import describe_error

Verdict = Literal["holds", "fails", "absent", "skipped"]


@dataclass(frozen=True)
class Rule:
    """A clause of the contract: what it asks, how it is measured, and of which losses it cannot be asked.

    Examples:
        >>> RULES[0].name, RULES[0].says
        ('zero smoothing', 'Without smoothing it is cross entropy: the mean of -ln p over the positions that count.')
    """

    name: str
    measure: Callable[[Subject], Iterator[Deviation]]
    lacks: Callable[[Subject], str | None] = lambda subject: None
    """The reason why it cannot be asked of a loss; None if it can."""

    @property
    def says(self) -> str:
        """The clause, in a sentence."""
        return (self.measure.__doc__ or "").strip()


def _no_strength(subject: Subject) -> str | None:
    if subject.smoothing is None:
        return "it takes no strength of smoothing"
    return None if subject.uniform else "its smoothing is not label smoothing"


def _no_divisor(subject: Subject) -> str | None:
    offers = subject.items is not None or subject.reduction is not None
    return None if offers else "it takes neither a number of items nor a reduction"


def _no_reduction(subject: Subject) -> str | None:
    return None if subject.reduction is not None else "it takes no reduction"


def _no_shift(subject: Subject) -> str | None:
    return None if subject.shifts or subject.shift is not None else "it does not shift"


def _no_logits(subject: Subject) -> str | None:
    return "it takes hidden states, not logits" if subject.from_states else None


RULES: tuple[Rule, ...] = (
    Rule("zero smoothing", rules.zero_smoothing),
    Rule("gradient", rules.gradient),
    Rule("label smoothing", rules.label_smoothing, _no_strength),
    Rule("slope", rules.slope),
    Rule("ignored positions", rules.ignored_positions),
    Rule("garbage where ignored", rules.ignored_garbage),
    Rule("nothing to predict", rules.nothing_to_predict),
    Rule("micro-batches", rules.micro_batches, _no_divisor),
    Rule("each position", rules.each_position, _no_reduction),
    Rule("shift", rules.shift, _no_shift),
    Rule("half precision", rules.half_precision),
    Rule("long sums in fp16", rules.long_sums),
    Rule("forbidden tokens", rules.forbidden_tokens, _no_logits),
    Rule("inputs kept", rules.keeps_inputs),
)
"""The contract, in the order of its table."""


@dataclass(frozen=True)
class RuleResult:
    """Whether a loss keeps a rule.

    Examples:
        >>> RuleResult("gradient", "fails", "3e-2 instead of 1e-5").verdict
        'fails'
    """

    rule: str
    verdict: Verdict
    detail: str = ""
    """The first deviation that is too large, or the reason why the rule was not asked."""


@dataclass(frozen=True)
class ConformanceReport:
    """Which rules of the contract a loss keeps.

    Examples:
        >>> results = RuleResult("gradient", "holds"), RuleResult("shift", "fails", "off by one")
        >>> report = ConformanceReport("mine", {"torch": "2.13"}, results)
        >>> [result.rule for result in report.failures]
        ['shift']
    """

    subject: str
    versions: Mapping[str, str]
    results: tuple[RuleResult, ...]

    @property
    def failures(self) -> tuple[RuleResult, ...]:
        """The rules that are broken."""
        return tuple(result for result in self.results if result.verdict == "fails")

    def __str__(self) -> str:
        versions = ", ".join(f"{package} {version}" for package, version in self.versions.items())
        lines = [f"{self.subject}" + (f" ({versions})" if versions else "")]
        for result in self.results:
            verdict = "FAILS" if result.verdict == "fails" else result.verdict
            lines.append(f"  {result.rule:<22} {verdict:<8} {result.detail}".rstrip())
        return "\n".join(lines)


def examine(subject: Subject) -> ConformanceReport:
    """Examine a loss by every rule of the contract.

    Examples:
        >>> from torch.nn import functional as F
        >>> report = examine(Subject("torch", F.cross_entropy, smoothing="label_smoothing", reduction="reduction"))
        >>> [result.verdict for result in report.results[:3]]
        ['holds', 'holds', 'holds']
        >>> any(result.rule == "nothing to predict" for result in report.failures)  # a mean over nothing is NaN
        True
    """
    trial(subject)
    return ConformanceReport(subject.name, subject.versions, tuple(_result(rule, subject) for rule in RULES))


def not_run(subject: str, versions: Mapping[str, str], reason: str) -> ConformanceReport:
    """The report on a loss that cannot run here."""
    return ConformanceReport(subject, versions, tuple(RuleResult(rule.name, "skipped", reason) for rule in RULES))


def trial(subject: Subject) -> None:
    """Call a loss once, so that a wrong `call` is an error and not a failure of every rule."""
    batch = case(subject.device)
    try:
        loss = subject.loss(batch.logits.clone().requires_grad_() * 1, batch.labels)
    except Exception as error:
        problem = f"`{subject.name}` cannot be called as {subject.call!r}: it raises {describe_error(error)}"
        raise ValueError(f"{problem}. `call` (--call) chooses another way.") from error
    shape = tuple(loss.shape)
    checks.require(loss.numel() == 1, f"`{subject.name}` returns a tensor of shape {shape}; it must return one number.")


def _result(rule: Rule, subject: Subject) -> RuleResult:
    reason = rule.lacks(subject)
    if reason is not None:
        return RuleResult(rule.name, "absent", reason)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some rules provoke NaN
            deviations = list(rule.measure(subject))
    except Exception as error:  # noqa: BLE001 - whatever a loss raises here breaks the rule
        return RuleResult(rule.name, "fails", describe_error(error))
    failed = next((deviation for deviation in deviations if not deviation.is_small), None)
    return RuleResult(rule.name, "fails", str(failed)) if failed else RuleResult(rule.name, "holds")
