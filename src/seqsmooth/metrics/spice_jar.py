"""SPICE, by the jar that pycocoevalcap brings along and the CoreNLP that the user supplies."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from seqsmooth.metrics import java
from seqsmooth.metrics.evaluation_set import EvaluationSet, Id, Sentence, join
from seqsmooth.metrics.scores import Absent, Scores, mean_scores

CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


def spice(
    hypotheses: Mapping[Id, Sentence],
    references: Mapping[Id, Sequence[Sentence]],
    *,
    corenlp: str | os.PathLike[str] | None = None,
    timeout: float = 3600.0,
    tokenised: str = "none",
) -> Scores:
    """SPICE of Anderson et al. (2016), between 0 and 1; the corpus score is the mean.

    Raises `Absent` where Java, a jar or CoreNLP is not there, or where the jar takes longer than `timeout` seconds.

    Args:
        hypotheses: one sentence for each id.
        references: the references of each id.
        corenlp: the folder with the two jars of Stanford CoreNLP 3.6.0; None for that in CORENLP_HOME, or for the
            folder where pycocoevalcap puts them.
        timeout: how many seconds the jar may take.
        tokenised: how the sentences were tokenised, for the signature.

    Examples:
        >>> from seqsmooth.metrics import Absent
        >>> try:
        ...     scores = spice({1: "a dog"}, {1: ["a dog"]}, corenlp="no/such/folder")
        ... except Absent as reason:
        ...     print(str(reason)[:11])  # Java, or CoreNLP
        SPICE needs
    """
    return score_spice(
        EvaluationSet.align(hypotheses, references), corenlp=corenlp, timeout=timeout, tokenised=tokenised
    )


def score_spice(
    corpus: EvaluationSet,
    *,
    corenlp: str | os.PathLike[str] | None = None,
    timeout: float = 3600.0,
    tokenised: str = "none",
) -> Scores:
    """Calculate SPICE of tokens that are aligned."""
    path = java.jar("SPICE", "spice", "spice-1.0.jar")
    folder = Path(corenlp or os.environ.get("CORENLP_HOME") or path.parent / "lib").absolute()
    missing = [name for name in CORENLP if not (folder / name).is_file()]
    if missing:
        raise Absent(f"SPICE needs Stanford CoreNLP 3.6.0 in CORENLP_HOME: {missing[0]} is not in {folder}.")
    jars = [path, *sorted((path.parent / "lib").glob("*.jar")), *(folder / name for name in CORENLP)]
    entries = [
        {"image_id": place, "test": join(hypothesis), "refs": [join(reference) for reference in several]}
        for place, (hypothesis, several) in enumerate(zip(corpus.hypotheses, corpus.references, strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder_name:
        inputs, outputs = Path(folder_name, "in.json"), Path(folder_name, "out.json")
        inputs.write_text(json.dumps(entries), encoding="utf-8")
        # No cache: it would be written beside the jar, and be read by others.
        command = [java.program("SPICE"), "-Dfile.encoding=UTF-8", "-Xmx8G", "-cp", os.pathsep.join(map(str, jars))]
        command += ["edu.anu.spice.SpiceScorer", str(inputs), "-out", str(outputs), "-silent"]
        java.run("SPICE", command, [], folder=Path(folder_name), timeout=timeout)
        try:
            answer = json.loads(outputs.read_text(encoding="utf-8"))
            by_place = {int(item["image_id"]): _number(item["scores"]["All"]["f"]) for item in answer}
            each = [by_place[place] for place in range(len(corpus))]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise Absent(f"SPICE's Java answered with something else than scores ({error!r}).") from error
    return mean_scores("SPICE", "spice:1.0", corpus, each, tokenised, java.version())


def _number(value: object) -> float:
    number = float(str(value))
    if math.isnan(number):
        raise ValueError("NaN for a score")
    return number
