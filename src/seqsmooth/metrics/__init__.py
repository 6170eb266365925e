"""EvaluationSet metrics: hypotheses and references in, scores with signatures and intervals out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqsmooth.lazy import lazy_names

if TYPE_CHECKING:
    from seqsmooth.metrics.bootstrap import Comparison
    from seqsmooth.metrics.coco_bleu import bleu
    from seqsmooth.metrics.coco_cider import cider
    from seqsmooth.metrics.coco_rouge import rouge_l
    from seqsmooth.metrics.meteor_jar import meteor
    from seqsmooth.metrics.scores import Absent, Scores
    from seqsmooth.metrics.sentences import align, coco_results, read_hypotheses, read_references
    from seqsmooth.metrics.spice_jar import spice
    from seqsmooth.metrics.translation import sacrebleu

__all__ = [
    "Absent",
    "Comparison",
    "Scores",
    "align",
    "bleu",
    "cider",
    "coco_results",
    "meteor",
    "read_hypotheses",
    "read_references",
    "rouge_l",
    "sacrebleu",
    "spice",
]

_HOMES = {
    "seqsmooth.metrics.bootstrap": ("Comparison",),
    "seqsmooth.metrics.coco_bleu": ("bleu",),
    "seqsmooth.metrics.coco_cider": ("cider",),
    "seqsmooth.metrics.coco_rouge": ("rouge_l",),
    "seqsmooth.metrics.meteor_jar": ("meteor",),
    "seqsmooth.metrics.scores": (
        "Absent",
        "Scores",
    ),
    "seqsmooth.metrics.sentences": (
        "align",
        "coco_results",
        "read_hypotheses",
        "read_references",
    ),
    "seqsmooth.metrics.spice_jar": ("spice",),
    "seqsmooth.metrics.translation": ("sacrebleu",),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
