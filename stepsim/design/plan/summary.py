"""A plan as tables: kernels, groups, converters, FIFOs, and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepsim.design.choices import Choices
from stepsim.design.dataflow.graph import Kernel
from stepsim.design.passes.loops.part_tiles import part_tiles
from stepsim.design.passes.memory.memory_kinds import kinds_of
from stepsim.design.plan.model_times import layers_of, model_milliseconds
from stepsim.design.plan.plan import Plan
from stepsim.design.plan.predictions import prediction_error

if TYPE_CHECKING:
    from stepsim.design.plan.compiled import Compiled
    from stepsim.design.plan.parts import GroupPlan

Rows = list[dict[str, Any]]


def kernel_rows(plan: Plan) -> Rows:
    """A row for each kernel: tile, order, unroll, and what was measured of it alone."""
    rows = []
    for kernel in plan.graph.kernels:
        found = plan.measured.get(kernel.name)
        rows.append(
            {
                "kernel": kernel.name,
                "group": kernel.group,
                "tile": _steps(kernel),
                "loops": ", ".join(map(str, kernel.loops)) or "one tile",
                "unroll": kernel.unroll,
                "II": None if found is None else round(found.interval, 1),
                "D": None if found is None else found.first,
                "T": None if found is None else found.tokens,
            }
        )
    return rows


def _steps(kernel: Kernel) -> str:
    """Steps of the dims of a kernel, as ``n 16, k 16``."""
    tiling = kernel.op.tiling
    return ", ".join(f"{dim} {step}" for dim, step in tiling.tile.items()) if tiling else ""


def group_rows(compiled: Compiled) -> Rows:
    """A row for each group: kernels, bytes, and cycles."""
    plan = compiled.plan
    rows = []
    for kernels, found in zip(plan.graph.groups, plan.groups, strict=True):
        group = kernels[0].group
        dmas = [dma for dma in plan.graph.dmas if dma.group == group]
        rows.append(
            {
                "group": group,
                "kernels": len(kernels),
                "lanes": sum(kernel.unroll for kernel in kernels),
                "converter_bytes": plan.graph.converter_bytes_of(group),
                "DMA_bytes": sum(dma.bytes for dma in dmas),
                "buffer_bytes": _without_fifos(found),
                "FIFO_bytes": found.fifo_bytes,
                "on_chip_bytes": found.memory_bytes,
                "off_chip_bytes": sum(dma.traffic for dma in dmas),
                "predicted_cycles": found.predicted,
                "unbounded_cycles": found.unbounded,
                "simulated_cycles": found.simulated,
            }
        )
    return rows


def _without_fifos(group: GroupPlan) -> int | None:
    """On-chip memory as runs report it."""
    if group.memory_bytes is None or group.fifo_bytes is None:
        return None
    return group.memory_bytes - group.fifo_bytes


def converter_rows(plan: Plan) -> Rows:
    """A row for each converter between kernels."""
    rows: Rows = []
    seen: set[object] = set()
    for edge in plan.graph.inner_edges:
        if edge.matched or edge.buffer in seen:
            continue
        seen.add(edge.buffer)
        readers = [e.consumer for e in plan.graph.inner_edges if e.buffer == edge.buffer]
        rows.append(
            {
                "converter": edge.tensor,
                "to": ", ".join(readers),
                "chunk": "x".join(map(str, edge.converter.chunk)),
                "filled": edge.converter.reuse,
                "bytes": edge.bytes,
                "memory": edge.memory,
            }
        )
    return rows


def fifo_rows(compiled: Compiled) -> Rows:
    """A row for each FIFO between kernels, converters and loads: depth and bytes."""
    rows: Rows = []
    for edge in compiled.plan.graph.inner_edges:
        for name, depth, bits in (
            (f"{edge.name}/before", edge.depth_before, edge.source.token_bits),
            (edge.name, edge.depth, edge.fifo_bits),
        ):
            if depth is not None and not (edge.matched and name.endswith("/before")):
                rows.append({"FIFO": name, "depth": depth, "bytes": -(-depth * bits // 8)})
    for dma in compiled.plan.graph.dmas:
        if dma.direction == "load" and dma.depth is not None:
            size = -(-dma.depth * dma.token_bits // 8)
            rows.append({"FIFO": dma.name, "depth": dma.depth, "bytes": size})
    return rows


def order_text(plan: Plan) -> list[str]:
    """Which order the loops have, and the cycles of those that were tried for it."""
    order, tried = plan.choices.get("order"), plan.choices.get("orders_tried")
    if not tried:
        return []
    others = [
        f"{name} slower" if cycles is None else f"{name} {cycles:,} cycles"
        for name, cycles in tried.items()
    ]
    return [f"loops are ordered {order}: {', '.join(others)}"]


def tile_text(plan: Plan) -> list[str]:
    """Tiles that were chosen smaller than the default, and why."""
    size, stated = plan.choices.get("tile", Choices.tile), plan.choices.get("tiles", {})
    return [str(one) for one in part_tiles(plan.graph.operators, size, stated)]


def times_text(plan: Plan) -> list[str]:
    """Predicted and simulated cycles, and milliseconds where the machine states a clock."""
    lines = [f"does not fit: {one}" for one in plan.choices.get("tried", ())]
    if lines:
        lines.append(
            f"none of these {len(lines)} designs fits; the plan is the one that needs least"
            if plan.infeasible
            else "fits: budget {budget:,}, tile {tile}, unroll {unroll}".format(**plan.choices)
        )
    lines += [f"slower, to fit: {one}" for one in plan.choices.get("cut", ())]
    lines += [
        f"not searched: {one}; give a larger effort" for one in plan.choices.get("unsearched", ())
    ]
    routings = [one for one in plan.groups if one.routings]
    if routings:
        count = max(one.routings for one in routings)
        free = all(one.guaranteed for one in routings)
        lines.append(
            f"FIFOs sized over {count} routings; "
            + ("no other one deadlocks" if free else "another one may deadlock")
            + "; cycles are those of the slowest one given"
        )
    about = plan.graph.operators.attributes
    for name, cycles in (
        ("predicted", plan.predicted),
        ("unbounded FIFOs", plan.unbounded),
        ("simulated", plan.simulated),
    ):
        if cycles is not None:
            ms = plan.machine.milliseconds(cycles)
            time = "" if ms is None else f" = {ms:.4f} ms"
            known = f"; {prediction_error_of(plan)}" if name == "predicted" else ""
            lines.append(f"{name}: {cycles:,} cycles{time}{known}")
    layers = layers_of(plan)
    whole = model_milliseconds(plan)
    if layers > 1 and whole is not None:
        if about.get("phase") == "prefill":
            text = f"first token of a prompt of {about.get('tokens')} after {whole:.3f} ms"
        else:
            tokens = int(about.get("tokens", 1))
            each = whole / (tokens * int(about.get("batch", 1)))
            what = "a token" if tokens == 1 else f"a step of {tokens:,} tokens"
            text = f"{whole:.3f} ms for {what}, {1000 / each:.1f} token/s"
        lines.append(f"all {layers} layers: {text}")
    return lines


def prediction_error_of(plan: Plan) -> str:
    """How far predictions have been off in designs for the phase of a plan, or of any phase."""
    phase = plan.graph.operators.attributes.get("phase")
    return prediction_error(phase if phase in ("prefill", "decode") else None)


def memory_rows(plan: Plan) -> Rows:
    """A row for each group: blocks of every kind of memory, of those that the device has."""
    if plan.machine.device is None:
        return []
    kinds = kinds_of(plan.machine.device)
    return [
        {
            "group": group.group,
            **{
                name: f"{count:,} of {kinds[name].blocks:,} blocks"
                for name, count in group.blocks.items()
            },
        }
        for group in plan.groups
        if group.blocks is not None
    ]
