"""From runs to tables, plots and a page."""

from seqsmooth.reports.behaviour import Behaviour, behaviour
from seqsmooth.reports.report import Wish, write_report
from seqsmooth.reports.rows import Row, gather
from seqsmooth.reports.table import Table, latex, make_table, markdown

__all__ = [
    "Behaviour",
    "Row",
    "Table",
    "Wish",
    "behaviour",
    "gather",
    "latex",
    "make_table",
    "markdown",
    "write_report",
]
