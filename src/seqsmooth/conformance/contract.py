"""The contract: its rules by name, and a loss held against them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from seqsmooth.conformance import rules
from seqsmooth.conformance.exact import case
from seqsmooth.conformance.rules import Measured
from seqsmooth.conformance.subject import Subject
from seqsmooth.packages import describe_error

Verdict = Literal["holds", "fails", "absent", "skipped"]


@dataclass(frozen=True)
class Rule:
    """One clause of the contract.

    Examples:
        >>> RULES[0].name, RULES[0].says
        ('zero smoothing', 'Without smoothing it is cross entropy: the mean of -ln p over the positions that count.')
    """

    name: str
    measure: Callable[[Subject], Iterator[Measured]]
    lacks: Callable[[Subject], str | None] = lambda subject: None
    """Why it cannot be asked of a loss; None where it can."""

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
    Rule("ignored positions", rules.ignored),
    Rule("garbage where ignored", rules.ignored_garbage),
    Rule("nothing to predict", rules.nothing),
    Rule("micro-batches", rules.micro_batches, _no_divisor),
    Rule("each position", rules.each_position, _no_reduction),
    Rule("shift", rules.shift, _no_shift),
    Rule("half precision", rules.half_precision),
    Rule("long sums in fp16", rules.long_sums),
    Rule("forbidden tokens", rules.forbidden, _no_logits),
    Rule("inputs kept", rules.inputs_kept),
)
"""The contract, in the order of its table."""


@dataclass(frozen=True)
class Finding:
    """What came out for one rule.

    Examples:
        >>> Finding("gradient", "fails", "3e-2 instead of 1e-5").verdict
        'fails'
    """

    rule: str
    verdict: Verdict
    told: str = ""
    """The worst of what was measured where it fails, the reason where it was not asked."""


@dataclass(frozen=True)
class Report:
    """What came out for one loss.

    Examples:
        >>> findings = Finding("gradient", "holds"), Finding("shift", "fails", "off by one")
        >>> report = Report("mine", {"torch": "2.13"}, findings)
        >>> [finding.rule for finding in report.failures]
        ['shift']
    """

    subject: str
    versions: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The rules that are broken."""
        return tuple(finding for finding in self.findings if finding.verdict == "fails")

    def __str__(self) -> str:
        versions = ", ".join(f"{package} {version}" for package, version in self.versions.items())
        lines = [f"{self.subject}" + (f" ({versions})" if versions else "")]
        for finding in self.findings:
            verdict = "FAILS" if finding.verdict == "fails" else finding.verdict
            lines.append(f"  {finding.rule:<22} {verdict:<8} {finding.told}".rstrip())
        return "\n".join(lines)


def examine(subject: Subject) -> Report:
    """Hold a loss against every rule of the contract.

    Examples:
        >>> from torch.nn import functional as F
        >>> report = examine(Subject("torch", F.cross_entropy, smoothing="label_smoothing", reduction="reduction"))
        >>> [finding.verdict for finding in report.findings[:3]]
        ['holds', 'holds', 'holds']
        >>> any(finding.rule == "nothing to predict" for finding in report.failures)  # a mean over nothing is NaN
        True
    """
    trial(subject)
    return Report(subject.name, subject.versions, tuple(_finding(rule, subject) for rule in RULES))


def skipped(subject: str, versions: Mapping[str, str], reason: str) -> Report:
    """The report on a loss that cannot run here."""
    return Report(subject, versions, tuple(Finding(rule.name, "skipped", reason) for rule in RULES))


def trial(subject: Subject) -> None:
    """Call a loss once, so that a wrong way of calling it is not taken for a broken rule."""
    given = case(subject.device)
    try:
        loss = subject.loss(given.logits.clone().requires_grad_() * 1, given.labels)
    except Exception as error:
        raise ValueError(
            f"`{subject.name}` must be a loss called as {subject.call!r}, but raises {describe_error(error)}"
        ) from error
    if loss.numel() != 1:
        shape = tuple(loss.shape)
        raise ValueError(f"`{subject.name}` must be a loss that gives one number, but gives shape {shape} instead.")


def _finding(rule: Rule, subject: Subject) -> Finding:
    reason = rule.lacks(subject)
    if reason is not None:
        return Finding(rule.name, "absent", reason)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN is what some rules are about
            measured = list(rule.measure(subject))
    except Exception as error:  # noqa: BLE001 - whatever a loss raises here is what the rule asks about
        return Finding(rule.name, "fails", describe_error(error))
    bad = [one for one in measured if not one.good]
    return Finding(rule.name, "fails", str(bad[0])) if bad else Finding(rule.name, "holds")
