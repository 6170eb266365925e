"""The tokeniser of coco-caption itself: that of the Penn Treebank in Java, in lower case and without punctuation.

`seqsmooth.text.ptb` does the same in pure Python, all but always; this is what it is measured by.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqsmooth.metrics import java
from seqsmooth.metrics.scores import Absent
from seqsmooth.text.ptb import PUNCTUATION

JAR = ("tokenizer", "stanford-corenlp-3.4.1.jar")
"""Where pycocoevalcap has it."""


def tokenise(sentences: Sequence[str], *, timeout: float = 600.0) -> list[list[str]]:
    """Tokenise sentences as coco-caption does before it scores.

    Raises `Absent` where there is no Java or no jar.

    Args:
        sentences: sentences as people write them.
        timeout: how many seconds the jar may take.
    """
    path = java.jar("PTB tokenisation", *JAR)
    command = [java.program("PTB tokenisation"), "-Dfile.encoding=UTF-8", "-cp", str(path)]
    command += ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    lines = [" ".join(sentence.split()) for sentence in sentences]
    answers = java.run("PTB tokenisation", command, lines, folder=path.parent, timeout=timeout)
    if len(answers) != len(lines):
        raise Absent(f"The PTB tokeniser must answer a line for each line, but made {len(answers)} of {len(lines)}.")
    return [[word for word in line.split(" ") if word and word not in PUNCTUATION] for line in answers]
