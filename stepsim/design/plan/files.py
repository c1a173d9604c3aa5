"""The files of ``stepsim compile``: plan, FIFO depths as YAML and HLS pragmas, pictures."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import stepsim.simulation
from stepsim.atomic import replacing
from stepsim.design.plan.drawing import to_svg
from stepsim.design.plan.picture import to_dot
from stepsim.design.programs.group_program import fifos_of
from stepsim.errors import GraphFileError, OutputError
from stepsim.graph import DType, Program, Tile
from stepsim.shown import shown
from stepsim.workloads import PLAN

if TYPE_CHECKING:
    from stepsim.design.plan.compiled import Compiled


def write_files(compiled: Compiled, folder: Path) -> tuple[Path, ...]:
    """Write all files of a plan, or none of them, to a folder, which is created.

    Raises
    ------
    OutputError : the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a path that no file system takes
        raise OutputError(
            f"cannot make the folder {shown(str(folder))}: "
            f"{getattr(error, 'strerror', None) or error}; choose one that can be written"
        ) from error
    texts = {
        PLAN: compiled.plan.to_yaml(),
        "graph.svg": to_svg(compiled.plan.graph),
        "graph.dot": to_dot(compiled.plan.graph),
        "fifo_depths.h": pragmas(compiled),
        "program.py": _PROGRAM,
        **fifo_files(compiled),
    }
    contents = {name: text.encode() for name, text in texts.items()} | _graph_files(compiled)
    targets = [folder / name for name in contents]
    with replacing(*targets) as parts:
        for part, content in zip(parts, contents.values(), strict=True):
            part.write_bytes(content)
    return tuple(targets)


_PROGRAM = '''"""The programs of the plan next to this file, one for each group."""

from pathlib import Path
from typing import Annotated

import stepsim as st

PLAN = st.design.Plan.load(Path(__file__).with_name("plan.yaml"))


def program(
    group: Annotated[
        int, st.workloads.Param("number of the group", least=0)
    ] = PLAN.groups[0].group,
) -> st.Program:
    return PLAN.programs()[PLAN.group(group)].program
'''


def _graph_files(compiled: Compiled) -> dict[str, bytes]:
    """Programs in the public graph format; those that it has no operators for are left out."""
    found: dict[str, bytes] = {}
    for made in compiled.programs:
        name = "graph.pb" if len(compiled.programs) == 1 else f"graph.{made.group}.pb"
        with suppress(GraphFileError):
            found[name] = made.program.to_graph(depths=False, mock_bf16=_has_bf16(made.program))
    return found


def _has_bf16(program: Program) -> bool:
    """Whether the program has floats that the format states only for runs that mock them."""
    return any(
        isinstance(stream.type, Tile) and stream.type.dtype is DType.bf16
        for operator in program.operators
        for stream in operator.outputs
    )


def fifo_files(compiled: Compiled) -> dict[str, str]:
    """Depths of the FIFOs of every group, in the format of ``--fifo-depth FILE``."""
    plan = compiled.plan
    found = {}
    for group, prepared in zip(plan.groups, compiled.prepared, strict=True):
        about = {
            "program": prepared.program.name,
            "program_hash": prepared.program_hash,
            "program_fifo_depth": prepared.program.fifo_depth,
            "machine": plan.machine.name,
            "machine_hash": stepsim.simulation.machine_hash(plan.machine),
            "cycles": [group.simulated],
            "unbounded_cycles": [group.unbounded],
            "fifo_slots": sum((group.depths or {}).values()),
            "fifo_bytes": group.fifo_bytes,
            "simulations": group.simulations,
        }
        name = "fifo_depths.yaml" if len(plan.groups) == 1 else f"fifo_depths.{group.group}.yaml"
        found[name] = stepsim.simulation.depths_text(about, group.depths or {})
    return found


def pragmas(compiled: Compiled) -> str:
    """``#pragma HLS stream`` lines of the FIFOs between kernels, loads and converters."""
    lines = [f"// FIFO depths of {compiled.plan.name}, in tokens of the named streams."]
    for made, group in zip(compiled.programs, compiled.plan.groups, strict=True):
        lines.append(f"// group {made.group}")
        depths = group.depths or {}
        for name, fifo in fifos_of(made.streams, compiled.wirings[made.group]).items():
            if fifo in depths:
                lines.append(f"// {name}")
                lines.append(f"#pragma HLS stream variable={variable(name)} depth={depths[fifo]}")
    return "\n".join(lines) + "\n"


def variable(name: str) -> str:
    """The name of a stream as an identifier of C++."""
    made = re.sub(r"\W+", "_", name.replace("->", "__to__"))
    return made if not made[:1].isdigit() else f"s_{made}"
