"""A chi-square test of a sample against its law, at a stated false-alarm rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from scipy.stats import chi2

FALSE_ALARM = 1e-4
"""How often a right sampler would fail; generators are fixed, so it either always or never does."""


def assert_follows(sample: Sequence[Hashable], law: Mapping[Hashable, float]) -> None:
    """Fail where the sample has an outcome of probability 0, or its counts are too far from their expectation.

    Outcomes expected fewer than 5 times are put together, for the chi-square law to hold.
    """
    counts = Counter(sample)
    impossible = {outcome for outcome in counts if law.get(outcome, 0.0) == 0.0}
    assert not impossible, f"drawn, but of probability 0: {sorted(map(str, impossible))[:5]}"
    observed, expected, rare, rare_expected = [], [], 0, 0.0
    for outcome, probability in law.items():
        if probability * len(sample) < 5:
            rare += counts[outcome]
            rare_expected += probability * len(sample)
        else:
            observed.append(counts[outcome])
            expected.append(probability * len(sample))
    if rare_expected > 0:
        observed.append(rare)
        expected.append(rare_expected)
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    degrees = len(observed) - 1
    assert degrees >= 1, "one outcome proves nothing"
    bound = chi2.isf(FALSE_ALARM, degrees)
    assert statistic <= bound, f"chi-square {statistic:.1f} > {bound:.1f} at {degrees} degrees of freedom"
