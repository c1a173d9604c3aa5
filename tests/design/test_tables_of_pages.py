"""Tables of compiled designs on pages are those of the designs."""

from __future__ import annotations

import re

import pytest

import stepsim as st
from stepsim.design.programs.group_program import fifos_of
from stepsim.reproduce import published_rows
from stepsim.sizing import slot_bytes
from tests.pages import DOCS

ORDERS = ("reductions_outermost", "tokens_outermost", "reductions_innermost")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_published_requests() -> None:
    lines = []
    for row in published_rows("published"):
        times = (
            row.latency_ms, row.published_latency_ms, row.TTFT_ms, row.published_TTFT_ms,
            row.token_per_s, row.published_token_per_s,
        )  # fmt: skip
        cells = [f"{t:,.0f}" if t >= 1000 else f"{t:.4g}" for t in times]
        lines.append(f"| {row.request} | {' | '.join(cells)} |\n")
    assert f"|---|---|---|---|---|---|---|\n{''.join(lines)}\n" in page("compile.md")


@pytest.mark.long
def test_orders_of_blocks() -> None:
    rows = re.findall(
        r"^\| ([\w.-]+), (prompt of|a token after) (\d+) \| (.*) \|$",
        page("compile.md"),
        re.MULTILINE,
    )
    assert len(rows) == 7
    for model, kind, size, cells in rows:
        phase = {"tokens": int(size)} if kind == "prompt of" else {"context": int(size)}
        found = [
            st.compile(
                model, phase="prefill" if "tokens" in phase else "decode", order=order,
                sizing="unbounded", shrink=False, placed=False, fit=False, unroll=2048, tile=16,
                **phase,
            ).plan.simulated
            for order in ORDERS
        ]  # fmt: skip
        shown = [f"**{n / 1e3:,.0f}**" if n == min(found) else f"{n / 1e3:,.0f}" for n in found]
        assert cells.split(" | ") == shown, model


@pytest.mark.long
def test_bytes_of_fifos_in_decoding() -> None:
    text = page("fifo-sizing-lp.md")
    rows = re.findall(
        r"^\| ([\w.-]+) \| ([\d.]+) MB \| ([\d.]+) MB \| \+([\d.]+) % \| ([\d.]+) MB \|$",
        text, re.MULTILINE,
    )  # fmt: skip
    assert len(rows) == 4
    saved = []
    for model, *shown in rows:
        made = st.compile(model, phase="decode", placed=False)
        (program,), (group,) = made.programs, made.plan.groups
        prepared = st.prepare(program.program, made.plan.machine)
        between = fifos_of(program.streams, prepared.wiring)
        size = {fifo.name: slot_bytes(fifo.stream.type) for fifo in prepared.wiring.fifos}
        flat = {**group.depths, **dict.fromkeys(between.values(), 1000)}
        slower = prepared.changed(fifo_depths=flat).run().cycles / group.unbounded - 1
        other = st.compile(model, phase="decode", placed=False, max_slowdown=slower).plan
        bytes_of_flat = sum(size[name] * depth for name, depth in flat.items())
        found = [
            f"{group.fifo_bytes / 1e6:.2f}", f"{bytes_of_flat / 1e6:.2f}", f"{slower:.1%}"[:-1],
            f"{other.fifo_bytes / 1e6:.2f}",
        ]  # fmt: skip
        assert found == shown, model
        saved.append(bytes_of_flat / other.fifo_bytes)
        if model.startswith("tinyllama"):
            load = {m: next(n for n in between.values() if n.startswith(f"load_{m}."))
                    for m in ("gate", "up", "down")}  # fmt: skip
            weights = sum(size[name] * group.depths[name] for name in load.values())
            short = prepared.changed(fifo_depths={**group.depths, load["down"]: 64}).run().cycles
            assert f"{weights / 1e6:.1f} MB are the three matrices" in text
            assert f"alone, the block takes {short / group.unbounded - 1:.0%}"[:-1] in text
    assert f"FIFOs take {int(min(saved))} to {int(max(saved))} times fewer bytes" in text


def test_a_published_decode_block() -> None:
    text = " ".join(page("fifo-sizing-lp.md").split())
    errors = [float(one) for one in re.findall(r"^\d+ \+([\d.]+)% \d+$", page("fifo-sizing-lp.md"),
                                               re.MULTILINE)]  # fmt: skip
    assert f"is within {errors[0]:.0f} % of it" in text
    assert f"takes {errors[1]:.0f} % longer than the report says" in text
