"""No number of a page is without its test: tables, and numbers in sentences, are in these lists.

A number in the output of a program is compared wherever pages are run; these are the others. A new
table of numbers, or a new number in a sentence, fails here until it is tested, generated or left
out.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.numbers import in_prose, number_pages, tables
from tests.pages import DOCS, blocks

ROOT = Path(__file__).parents[1]

RULES = "rules"
"""The table states rules, names and options; its numbers are parts of these."""

MEASURED = {
    "performance.md": "make bench-page",
    "serving.md": "bench.audited",
    "serving-tutorial.md": "examples/serving/dynamic_tiling.py",
}
"""Pages whose numbers are measured, by a command that docs/measured-numbers.md names."""

TABLES: dict[str, dict[str, str]] = {
    "addresses.md": {
        "machine | what is new": "tests/machine/test_pages_of_presets.py",
        "with `hbm.model: dram`": RULES,
    },
    "architecture.md": {"command | runs": RULES},
    "cli.md": {
        "exit code | meaning": "tests/cli/test_documentation.py",
        "option | meaning": "tests/cli/test_documentation.py",
        "variable | meaning": RULES,
    },
    "compile.md": {
        "file | what it is": RULES,
        "block | `reductions_outermost` | `tokens_outermost` | `reductions_innermost`":
            "tests/design/test_tables_of_pages.py",
        "request | latency ms | published | TTFT ms | published | token per s | published":
            "tests/design/test_tables_of_pages.py",
    },
    "data.md": {"group | content | license": "tests/test_docs.py"},
    "downtile.md": {"workload | downtiled | otherwise": RULES, "operator | units": RULES},
    "dram.md": {
        "preset | clock | organization | peak | source": "tests/machine/test_pages_of_presets.py"
    },
    "ensembles.md": {
        "disturbance | changes | bounds | applies to": "tests/simulation/test_pages_of_runs.py",
        "disturbance | changes | bounds": "tests/simulation/test_pages_of_runs.py",
        "level | disturbed | mean | worst | bias | p5 to p95, of the median":
            "tests/simulation/test_levels_page.py",
    },
    "fifo-sizing-lp.md": {
        "rates | printed | exact (`most_tokens`)": RULES,
        "method | slots / least | deadlocks | at full speed | longest run | runs each":
            "tests/sizing/test_fifo_sizing_page.py",
        "model | within 0.5 % of unbounded | depth 1,000 | its slowdown | sized for that slowdown":
            "tests/design/test_tables_of_pages.py",
    },
    "functions.md": {"functions of `st.fn` | sides | FLOPs": "tests/test_doc_programs.py"},
    "graphs.md": {
        "generation | how it is recognized | what it has": RULES,
        "operator | number | language": "tests/test_docs.py",
    },
    "hardware.md": {
        "unit | what it does in a cycle": "tests/hardware/test_page.py",
        "machine | what it is": RULES,
        "key | default | meaning": "tests/hardware/test_page.py",
    },
    "machines.md": {
        "preset | off-chip | on-chip | describes": "tests/machine/test_pages_of_presets.py",
        "key | unit | range | default | meaning": "tests/machine/test_reference_page.py",
    },
    "measured-numbers.md": {"page | numbers | command | time": RULES},
    "metrics.md": {"name | unit | definition": RULES},
    "models.md": {
        "name | model dim | experts | active | inner dim | shared inner dim | dense inner dim | "
        "heads | KV heads | width of keys | of values": "tests/workloads/test_models_page.py",
        "quantity | keys; the first that is present is used":
            "tests/workloads/test_models_page.py",
        "type | other names | bytes": "tests/workloads/test_models_page.py",
    },
    "noc-chips.md": {
        "`algorithm` | `all-reduce` | `all-gather` | `reduce-scatter` | `all-to-all` | chips":
            RULES,
        "`all-reduce` | `all-gather` | `reduce-scatter` | `all-to-all`": RULES,
    },
    "noc.md": {
        "column | meaning | default": RULES,
        "model | what it is | takes | for": RULES,
        "preset | network | source": "tests/machine/test_pages_of_presets.py",
    },
    "operator-graphs.md": {"pass | what it does": RULES, "group | methods": RULES},
    "parallel.md": {
        "model | chips | split | cycles | speed-up | weights | KV cache | one load | operator | "
        "link | imbalance | bound": "tests/workloads/test_parallel_page.py"
    },
    "placement.md": {"what | where it may be": RULES},
    "programs/index.md": {"what | operators": RULES},
    "public-machines.md": {"named | document": RULES},
    "pytorch.md": {"of PyTorch": RULES},
    "report.md": {"part | what it shows": RULES},
    "stability.md": {"file | says its version by | version": "tests/test_docs.py"},
    "sweeps.md": {"path | content": RULES},
    "traces.md": {
        "field | type | meaning": RULES,
        "field | type | unit | meaning": RULES,
        "`--format` | input | becomes": RULES,
        "file | data read in addition to the window": RULES,
    },
    "what-if.md": {"kind | changes": RULES},
    "why.md": {"key | meaning": RULES},
    "workloads.md": {"strategy | requests of a region": RULES},
}  # fmt: skip
"""How the numbers of a table are known, by its header."""

EXAMPLE = "an example, or follows from the sentence"

PROSE: dict[str, dict[str, str]] = {
    "addresses.md": {"1,024": EXAMPLE},
    "compile-dse.md": dict.fromkeys(
        ("11.8 %", "13.0 %", "20.0 %", "43.9 %", "56 %", "8.5 %"), "bench.compile_share"
    ),
    "compile.md": {
        "0.5 %": "stepsim.design.choices:Choices.max_slowdown",
        "2.7 times": "bench.prediction_errors",
        "20,000": "stepsim.design.plan.checking:MOST_TILES",
    },
    "data.md": {"4 MB": "tests/test_docs.py"},
    "cli.md": {"20 s": "bench/test_start_up.py", "70 s": "bench/test_start_up.py"},
    "deadlocks.md": {
        "4,000": "stepsim.sizing.deadlock:_MOST_RUNS",
        "50,000": "tests/sizing/test_deadlock.py",
    },
    "dram.md": {"1,110": "tests/dram/test_dram_cases.py"},
    "ensembles.md": dict.fromkeys(
        ("11.3 %", "2.7 %", "2.8 %", "7.2 %"), "tests/simulation/test_levels_page.py"
    ),
    "fifo-depths.md": {"10 %": EXAMPLE},
    "fifo-sizing-lp.md": {
        **dict.fromkeys(("50 %", "11.1 MB", "9 times", "13 %", "1,000"),
                        "tests/design/test_tables_of_pages.py"),
        **dict.fromkeys(("8,268", "12,557"), "tests/sizing/test_fifo_sizing_page.py"),
        "60 cycles": "tests/sizing/test_fifo_lp.py",
    },
    "machines.md": {
        **dict.fromkeys(("558,992", "575,721", "580,804", "680,144"),
                        "tests/parity/test_channels.py"),
        "20,000": "stepsim.documents.yaml_text:_MOST_VALUES",
    },
    "measured-numbers.md": {"21 ns": "bench/test_engine_speed.py"},
    "moe-compiler.md": {"0.5 %": "stepsim.design.choices:Choices.max_slowdown"},
    "noc.md": {"9 cycles": "tests/machine/test_pages_of_presets.py"},
    "parallel.md": {"1.2 times": "tests/workloads/test_parallel_page.py"},
    "placement.md": dict.fromkeys(
        ("2,000", "200,000", "1,000,000"), "tests/placement/test_effort.py"
    ),
    "pytorch.md": {
        "1,814,073,344": "tests/design/operators/test_networks.py",
        "0.5 %": "tests/design/operators/test_networks.py",
    },
    "quickstart.md": {"0.8 GB": "du -sh .venv"},
    "report.md": {
        "1,000": "stepsim.report.serving.document:_COLUMNS",
        "4.8 MB": "tests/report/html/test_documentation.py",
        "60,000": "stepsim.report.html.sweep_document:_MOST_RUNS",
    },
    "speed-regressions.md": {
        "0.9 times": "bench.check:_FAR_BELOW",
        "1.05 times": "bench.check:LIMITS['instructions']",
        "1.08 times": "bench.check:LIMITS['ratios']",
    },
    "sweeps.md": {
        "100,000": "stepsim.sweep.spec.sizes:MOST_POINTS",
        "1,000,000": "stepsim.sweep.spec.sizes:MOST_TRACES",
        "10,000,000": "stepsim.sweep.spec.sizes:MOST_RUNS",
        "156,250": EXAMPLE,
        "95 %": EXAMPLE,
    },
    "timeline.md": {"45 MB": "stepsim.report.perfetto:LIMIT_BYTES"},
    "timing.md": dict.fromkeys(
        ("1,903", "10,000", "10,022", "10,848", "16,675,022", "19 cycles", "24,026", "3 cycles",
         "4,096", "4,150", "43 cycles", "5,561,689", "503 cycles", "9,478"),
        "tests/simulation/test_surprises.py",
    ),
    "traces.md": {
        "1,048,576": "stepsim.trace_io.formats.job:MAX_GIVEN_EXPERTS",
        "16 %": "tests/trace_io/test_windows.py",
        "16 MB": "stepsim.trace_io.writer:_MAX_BYTES",
        "256 kB": "stepsim.trace_io.sources.text:_BLOCK_BYTES",
        "262,144": "stepsim.trace_io.writer:4 * ROW_GROUP_ROWS",
        "32 MB": "stepsim.trace_io.formats.job:CHUNK_BYTES",
        "5,000": "tests/trace_io/test_windows.py",
        "524,288": "stepsim.trace_io.routing.parts:_KEPT_ROWS",
        "65,535": EXAMPLE,
        "65,536": "stepsim.trace_io.writer:ROW_GROUP_ROWS",
        "8,192": "stepsim.trace_io.writer:ROW_GROUP_ROWS // _LEAST_SHARE",
    },
    "tune.md": dict.fromkeys(
        ("0.1 %", "1,200", "20 %", "24 %", "45 %"), "bench.tune_share"
    ),
    "what-if.md": {"20 %": "stepsim.explain.changes.cost:ENOUGH"},
    "why.md": {"1.25 times": "stepsim.explain.verdict:_NEAR"},
}  # fmt: skip
"""How a number in a sentence is known where no program of its page has it."""

_SCALES = {"%": (0.01,), "kB": (1e3, 2**10), "MB": (1e6, 2**20), "GB": (1e9, 2**30)}


def _how(page: str, how: str, number: str = "") -> None:
    """Raise where what a list says of a number does not hold."""
    if how in (RULES, EXAMPLE):
        return
    if how.endswith(".py"):
        text = (ROOT / how).read_text(encoding="utf-8")
        has = number and re.search(rf"\b{_digits(number)}\b", text.replace("_", ""))
        assert has or page in text, f"{how} neither names {page} nor has {number}"
    elif ":" not in how:
        listed = (DOCS / "measured-numbers.md").read_text(encoding="utf-8")
        assert how in listed, f"docs/measured-numbers.md does not name {how}"


@pytest.mark.parametrize("page", number_pages())
def test_every_table_of_numbers_is_known(page: str) -> None:
    if page in MEASURED:
        _how(page, MEASURED[page])
        return
    listed = TABLES.get(page, {})
    assert set(tables(page)) == set(listed)
    for how in listed.values():
        _how(page, how)


@pytest.mark.parametrize("page", number_pages())
def test_every_number_in_a_sentence_is_known(page: str) -> None:
    if page in MEASURED:
        return
    listed = PROSE.get(page, {})
    code = " ".join(block.body for block in blocks(page)).replace(",", "").replace("_", "")
    shown = {
        number for number in in_prose(page)
        if re.search(rf"(?<![\d.]){re.escape(_digits(number))}(?!\d|\.\d)", code)
    }  # fmt: skip
    assert in_prose(page) - shown == set(listed) - shown
    for number, how in listed.items():
        assert number in in_prose(page)
        _how(page, how, number)
        if ":" in how:
            assert _is_constant(number, how), f"{number} is not {how}"


def _digits(number: str) -> str:
    found = re.match(r"[\d,.]*\d", number)
    assert found is not None
    return found[0].replace(",", "")


def _is_constant(number: str, how: str) -> bool:
    """Whether a number follows from constants of a module; ratios may be written as inverses."""
    module, _, expression = how.partition(":")
    value = eval(expression, dict(vars(importlib.import_module(module))))
    unit = number.rpartition(" ")[2]
    sizes = [float(_digits(number)) * scale for scale in _SCALES.get(unit, (1.0,))]
    return any(abs(size - one) < 1e-9 * size for size in sizes for one in (value, 1 / value))
