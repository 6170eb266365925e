"""All runs on one page, one line each: what they are, how long they took, how good they became."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seqsmooth.reports.page import document
from seqsmooth.reports.rows import Row
from seqsmooth.reports.table import NAMES

# A click on a heading sorts by its column, another one the other way round.
SORT = """
document.querySelectorAll('th').forEach((head,n)=>head.addEventListener('click',()=>{
const body=head.closest('table').tBodies[0],up=head.dataset.up=head.dataset.up==='1'?'0':'1';
const key=row=>{const t=row.cells[n].textContent;return isNaN(parseFloat(t))?t:parseFloat(t)};
[...body.rows].sort((a,b)=>(key(a)>key(b)?1:-1)*(up==='1'?1:-1)).forEach(row=>body.append(row))}))
"""


def index(title: str, rows: Sequence[Row], metrics: Sequence[str]) -> str:
    """The page."""
    head = ["run", "row", "table", "seed", "epochs", "steps", "seconds", "best in validation", "device"]
    head += [NAMES[name] for name in metrics]
    lines = []
    for row in rows:
        for run, scores in zip(row.runs, row.scores, strict=True):
            told = run.manifest
            best = told.get("best")
            cells = [run.name, row.label, row.table, str(told["seed"]), str(told.get("epochs", ""))]
            cells += [str(told.get("steps", "")), f"{float(told.get('seconds', 0)):.0f}"]
            cells.append("" if best is None else f"{best['value']:.2f} ({best['metric']}, epoch {best['epoch']})")
            cells.append(str(told.get("device", "")))
            for name in metrics:
                cells.append(f"{scores[name].scale * scores[name].value:.2f}" if name in scores else "")
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    heads = "".join(f'<th style="cursor:pointer">{escape(name)}</th>' for name in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    body = (
        f'<h1>{escape(title)}: runs</h1><p class="soft">{len(lines)} runs; a click on a heading sorts. '
        f'<a href="report.html">The report</a></p><div class="card scroll">{table}</div><script>{SORT}</script>'
    )
    return document(f"{title}: runs", body)
