"""`seqsmooth score`: score captions or translations, with intervals and signatures."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Score captions or translations against their references.

HYPOTHESES is what `seqsmooth decode` wrote, other JSON Lines ({"id": 42, "text": "a man on a horse"}, or "tokens":
[...]), a results file of the COCO server ([{"image_id": 42, "caption": "..."}]), or plain text, a sentence a line.
REFERENCES is Karpathy's json, COCO's annotations json, or plain text, in one file or several."""

EXAMPLES = """\
examples:
  seqsmooth score captions.json dataset_coco.json --metrics bleu-1,bleu-4,cider --json scores.json
  seqsmooth score translations.txt test.en --against baseline.txt
  seqsmooth score runs/coco/show_tell/mle/0/decoded/test.jsonl dataset_coco.json --export captions_results.json

Values are times 100, as in papers. Metrics that cannot be calculated here say why, below the table."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    add("hypotheses", type=Path, metavar="HYPOTHESES", help="the output of the system")
    add("references", type=Path, nargs="+", metavar="REFERENCES", help="the references")
    known = "bleu-1 to bleu-4, rouge-l, cider, meteor, spice, sacrebleu, sacrebleu-13a"
    rule = "those of captions for json, sacrebleu for plain text"
    add("--metrics", metavar="NAMES", help=f"the metrics, as in bleu-4,cider, out of {known} (default: {rule})")
    rule = "ptb for COCO's annotations, none for the rest"
    add(
        "--tokenise",
        metavar="HOW",
        help=f"the tokenisation: none, lower, ptb, or ptb-jar, which needs Java (default: {rule})",
    )
    add("--split", default="test", help="the split of Karpathy's json: train, val, test (default) or all")
    add("--subset", action="store_true", help="ignore references without a hypothesis")
    rule = "of plain text; needed where the ids of a subset fit both"
    add("--first", type=int, choices=(0, 1), help=f"the id of the first line {rule}")
    add("--against", type=Path, metavar="FILE", help="the output of another system, for a paired test")
    add("--confidence", type=float, default=0.95, help="the confidence of the intervals (default 0.95)")
    add("--resamples", type=int, default=1000, help="the number of resampled corpora (default 1000)")
    add("--seed", type=int, default=0, help="the seed of the resampling (default 0)")
    add("--corenlp", type=Path, metavar="FOLDER", help="the folder of Stanford CoreNLP 3.6.0, for SPICE")
    add("--timeout", type=float, default=600.0, help="the seconds that each Java program may take (default 600)")
    add("--json", type=Path, metavar="FILE", help="write the scores to this file")
    add("--export", type=Path, metavar="FILE", help="write HYPOTHESES in the format of the COCO server")


def start(given: argparse.Namespace) -> int:
    """Score, print the table and return the exit status: 2 where no metric could be calculated."""
    from seqsmooth import checks
    from seqsmooth.cli.names import split_names
    from seqsmooth.files.atomic import atomic_write_text
    from seqsmooth.files.paths import check_destination
    from seqsmooth.metrics import bootstrap, sentences
    from seqsmooth.metrics.tasks import TASKS, check_names

    taken = [each.resolve() for each in (given.hypotheses, given.against, *given.references) if each]
    for name, path in (("json", given.json), ("export", given.export)):
        if path is not None:
            check_destination(name, path)
            rule = "another file than those that are read or written"
            checks.must(path.resolve() not in taken, name, rule, str(path))
            taken.append(path.resolve())
    asked = split_names("metrics", given.metrics)
    check_names(asked)
    bootstrap.check(given.confidence, given.resamples, given.seed)
    checks.positive("timeout", given.timeout)
    references = sentences.read_references(given.references, split=given.split)
    usual = (TASKS["translation"].main,) if references.numbered else TASKS["captions"].metrics
    names = asked or usual
    tokenise = given.tokenise or ("ptb" if references.raw else "none")
    systems = [given.hypotheses, *([given.against] if given.against is not None else [])]
    how = {"subset": given.subset, "first": given.first}
    aligned = [sentences.align(sentences.read_hypotheses(path), references, **how) for path in systems]
    from seqsmooth.metrics import suite
    from seqsmooth.metrics.scorecard import Scorecard

    if given.export is not None:
        with atomic_write_text(given.export) as file:
            file.write(sentences.coco_results(aligned[0][0]))
    scored = [
        suite.score(ours, theirs, names, tokenise=tokenise, corenlp=given.corenlp, timeout=given.timeout)
        for ours, theirs in aligned
    ]
    scores, absent = scored[0]
    if not scores:
        raise ValueError(" ".join(absent.values()))
    other = scored[1][0] if len(scored) > 1 else {}
    report = Scorecard(scores, absent, other, given.confidence, given.resamples, given.seed)
    if given.json is not None:
        report.save(given.json)
    print(report.text(), flush=True)
    return 0
