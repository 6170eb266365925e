"""Reports: records of runs -> rows -> tables, figures, pages."""

from seqsmooth.reports.behaviour import Behaviour, behaviour
from seqsmooth.reports.record import Record
from seqsmooth.reports.report import gather, write_report
from seqsmooth.reports.rows import Row, Table
from seqsmooth.reports.table import latex, markdown, plain

__all__ = [
    "Behaviour",
    "Record",
    "Row",
    "Table",
    "behaviour",
    "gather",
    "latex",
    "markdown",
    "plain",
    "write_report",
]
