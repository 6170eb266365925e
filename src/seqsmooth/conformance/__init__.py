"""The contract of a token-level loss, and whether one keeps it: ours, or anybody's."""

from seqsmooth.conformance.contract import RULES, Finding, Report, Rule, examine
from seqsmooth.conformance.subject import Subject, load

__all__ = ["RULES", "Finding", "Report", "Rule", "Subject", "examine", "load"]
