"""Write the page of documentation on a table of points: ``python -m tests.parity.stepdb TABLE``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.parity.stepdb.comparison import compare
from tests.parity.stepdb.page import PAGE, page_of
from tests.parity.stepdb.points import read_points

if __name__ == "__main__":
    points = [point for point in read_points(Path(sys.argv[1])) if point.determined]
    PAGE.write_text(page_of([compare(point) for point in points]), encoding="utf-8")
