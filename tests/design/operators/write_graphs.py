"""Writes the graphs of the examples anew: ``python -m tests.design.operators.write_graphs``."""

from __future__ import annotations

from tests.design.operators.example_models import DATA, KEPT, exported

if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for one in KEPT:
        one.path.write_text(exported(one).to_json(), encoding="utf-8")
