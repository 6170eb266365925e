"""Which tables the page of results has, and which of the paper's numbers stand beside ours."""

from __future__ import annotations

from dataclasses import dataclass, replace

from seqsmooth.reports.paper import PaperRow, paper_tables

WITHOUT = ("captioning without attention", "captioning appendix, without attention")
WITH = ("captioning with attention", "captioning appendix, with attention")
VALIDATION = (
    "Those models of the table above that were decoded on the validation items, too, as the test items were. The "
    "values of the losses were chosen on these items, decoded greedily."
)
WMT, IWSLT = ("translation, WMT'14 English-French",), ("translation, IWSLT'14 German-English",)


@dataclass(frozen=True)
class Chapter:
    """A table of the page.

    Attributes:
        table: `table` in the configs of its runs.
        title: its heading.
        papers: the tables of the paper whose rows it has, in their order.
        beside: which numbers of the paper compare with ours: "stage one", "printed", or "" for none.
        note: what a reader must know to compare.
        short: its name above a column.
        whole: whether rows of the paper that have no record are listed as not run.
        glance: whether it is a column of "At a glance"; no where a set comes again, with values not chosen on it.
        baseline: the table whose MLE is this one's, too, and is not trained again; None for its own.
    """

    table: str
    title: str
    papers: tuple[str, ...] = ()
    beside: str = ""
    note: str = ""
    short: str = ""
    whole: bool = True
    glance: bool = True
    baseline: str | None = None

    @property
    def rows(self) -> dict[str, PaperRow]:
        """The paper's rows, by label; of those that it has twice the first."""
        found: dict[str, PaperRow] = {}
        for name in self.papers:
            for row in paper_tables()[name]:
                found.setdefault(row.label, row)
        return found

    def on(self, split: str) -> Chapter:
        """The same for another split than "test", which no number of the paper is of."""
        note = VALIDATION if split == "val" else self.note
        return replace(self, title=f"{self.title} ({split})", beside="", note=note, whole=False)


CHAPTERS = (
    Chapter(
        "captioning without attention, stage one",
        "Captioning without attention",
        WITHOUT,
        "stage one",
        "Show and Tell on COCO, train and restval. The paper's numbers are those of its first stage, in which the CNN "
        "is frozen as ours is, from columns that its LaTeX source has and its printed table hides. Its CNN is "
        "ResNet-152, ours EfficientNet-Lite2, and ours is tested on the 4,407 of its 5,000 test images whose pixels "
        "were to be had: compare differences before levels. The rows of its appendix (BLEU-4 rewards) have no numbers "
        "of the first stage.",
        "COCO",
    ),
    Chapter(
        "captioning without attention, stage one, fifteen epochs",
        "Captioning without attention, fifteen epochs",
        WITHOUT,
        "stage one",
        "Some rows of the table above, trained for fifteen epochs instead of nine: whether what they say depends on "
        "how long a model learns. Nothing else differs but what the name of a row says, and the learning rate falls "
        "over the whole of the run.",
        "COCO, 15 epochs",
        whole=False,
    ),
    Chapter(
        "captioning without attention, stage one, 1,024 units",
        "Captioning without attention, fifteen epochs and 1,024 units",
        WITHOUT,
        "stage one",
        "The recipe of fifteen epochs with twice the units, and nothing else changed: what a model has to gain by its "
        "size.",
        "COCO, 1,024 units",
        whole=False,
        glance=False,
    ),
    Chapter(
        "captioning without attention, stage one, the authors' values",
        "Captioning without attention, the authors' temperatures and weights",
        WITHOUT,
        "stage one",
        "The recipe of the first table and its nine epochs, but temperatures and mixing weights are those of the "
        "authors' configs, not chosen on our validation data; and so are samples, one a caption, whose rewards are "
        "weighted over the batch. MLE, which has no such values, is that of the first table.",
        "COCO, authors' values",
        glance=False,
        baseline="captioning without attention, stage one",
    ),
    Chapter(
        "captioning with attention, restval",
        "Captioning with attention",
        WITH,
        "",
        "Top-Down on 16 regions of 96 numbers each, trained on restval alone, a quarter of the images: levels do not "
        "compare with the paper's. Main rows only, in the paper's order.",
        "COCO, attention",
        whole=False,
    ),
    Chapter(
        "restval",
        "Captioning without attention, a quarter of the images",
        WITHOUT,
        "",
        "Trained on restval alone. Main rows only, in the paper's order.",
        "COCO, a quarter",
        whole=False,
    ),
    Chapter(
        "restval, fifteen epochs",
        "What MLE depends on",
        note="MLE on a quarter of the images, restval, for fifteen epochs, with a setting or two changed. Each has "
        "trained once but where the table says otherwise, so that its interval is over images alone; seeds of one loss "
        "differ by 0.4 to 0.5 in the tables above.",
        glance=False,
    ),
    Chapter(
        "translation, IWSLT'14 of 21,000 pairs",
        "Translation: IWSLT'14 German-English, low-resource",
        IWSLT,
        "printed",
        "The standard test set of 6,750 sentences, but 21 thousand of the 153 thousand training pairs: "
        "levels do not compare with the paper's.",
        "IWSLT'14 De-En",
    ),
    Chapter("translation, Multi30k", "Translation: Multi30k German-English", IWSLT, short="Multi30k De-En"),
    Chapter(
        "translation, Tatoeba English-French",
        "Translation: Tatoeba English-French",
        WMT,
        note="The models learn from short sentences, of six words. Their test set is of such sentences; newstest2014, "
        "the news on which the paper tests, shows what is left outside of what they learned.",
        short="Tatoeba En-Fr",
    ),
    Chapter("translation, Tatoeba German-English", "Translation: Tatoeba German-English", IWSLT, short="Tatoeba De-En"),
    Chapter(
        "stage two, 480 pictures",
        "Stage two on 480 pictures",
        note="The CNN learns with the decoder, on the 480 training pictures of Flickr8k that were to be had. [Stage "
        "two](results/stage_two.md) says what changed in training, which is what these runs are for: the scores of 60 "
        "test pictures tell next to nothing.",
    ),
)

LABEL, HAMMING, LAZY, CIDER = (
    "Label smoothing",
    "Seq, Hamming, V_refs",
    "Seq, lazy, Hamming, V_refs",
    "Seq, CIDEr, V_refs",
)
PAIRS = (
    ("Tok, GloVe", LABEL),
    (HAMMING, LABEL),
    (LAZY, LABEL),
    (CIDER, LABEL),
    ("Tok-Seq, Hamming, V_refs", LABEL),
    ("Tok-Seq, CIDEr, V_refs", LABEL),
    ("Seq, Hamming, V_batch", LABEL),
    ("Tok-Seq, Hamming, V_batch", LABEL),
    ("Tok-Seq, BLEU-4, V_batch", LABEL),
    (CIDER, "Seq, constant, V_refs"),
    ("Seq, BLEU-4, V_refs", "Seq, constant, V_refs"),
    (CIDER, HAMMING),
    (CIDER, "Seq, CIDEr literal, V_refs"),
    (HAMMING, LAZY),
    (HAMMING, "Seq, Edit, V_refs"),
    (LAZY, "Seq, lazy sampled, Hamming, V_refs"),
    ("Tok, GloVe r^freq", "Tok, GloVe"),
    ("Tok-Seq, Hamming, V_refs", HAMMING),
    ("Tok-Seq, CIDEr, V_refs", CIDER),
    ("Tok-Seq, Hamming, V_batch", "Seq, Hamming, V_batch"),
)
"""What is compared beside MLE: smoothing that looks at the task with smoothing that does not, a reward with none,
prefixes of samples with those of the ground truth, weights and samplers with each other, both levels with one."""
