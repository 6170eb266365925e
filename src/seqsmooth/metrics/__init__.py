"""EvaluationSet metrics: hypotheses and references in, scores with signatures and intervals out."""

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
