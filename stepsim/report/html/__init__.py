"""The report of a run, a sweep or services as one HTML page that works offline."""

from stepsim.report.html.page import require_plotly, write_page
from stepsim.report.html.reading import RunTables, read_run
from stepsim.report.html.run_document import run_document
from stepsim.report.html.sweep_document import SweepTables, sweep_document

__all__ = [
    "RunTables",
    "SweepTables",
    "read_run",
    "require_plotly",
    "run_document",
    "sweep_document",
    "write_page",
]
