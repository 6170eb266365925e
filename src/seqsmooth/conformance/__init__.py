"""The contract of a token-level loss as code, and the means to examine any loss by it."""

from seqsmooth.conformance.contract import RULES, ConformanceReport, Rule, RuleResult, examine
from seqsmooth.conformance.subject import Subject, load

__all__ = ["RULES", "ConformanceReport", "Rule", "RuleResult", "Subject", "examine", "load"]
