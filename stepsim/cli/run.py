"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from stepsim.cli.attention import AttentionChoice, attention_case
from stepsim.cli.decoder import DecoderChoice, decoder_case
from stepsim.cli.execution import RunOptions, run_case
from stepsim.cli.inputs import RequestSource, TokenSource
from stepsim.cli.machine_choice import MachineChoice
from stepsim.cli.moe import MoeChoice, moe_case
from stepsim.cli.signature import takes
from stepsim.cli.swiglu import SwigluChoice, swiglu_case

if TYPE_CHECKING:
    from stepsim.cli.case import Case
    from stepsim.machine import Machine

__all__ = ["app"]

app = typer.Typer(help="Simulate a workload.", no_args_is_help=True)

_BUILDING = "building the program"


@app.callback()
def _group() -> None:
    pass


@app.command()
@takes(MoeChoice, TokenSource, MachineChoice, RunOptions, required=("routing",))
def moe(
    choice: MoeChoice, source: TokenSource, machine: MachineChoice, options: RunOptions
) -> None:
    """Simulate a mixture-of-experts layer on recorded or synthetic routing."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        routing = source.read(choice.model)
        phase(_BUILDING)
        return moe_case(choice, source.count(routing), routing, target, options.memory_model)

    run_case(prepare, machine, options)


@app.command()
@takes(AttentionChoice, RequestSource, MachineChoice, RunOptions, required=("kv_lengths",))
def attention(
    choice: AttentionChoice, source: RequestSource, machine: MachineChoice, options: RunOptions
) -> None:
    """Simulate decode attention of one KV head on requests with caches of different lengths."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        requests = source.read()
        phase(_BUILDING)
        return attention_case(choice, requests, target, options.memory_model)

    run_case(prepare, machine, options)


@app.command()
@takes(SwigluChoice, MachineChoice, RunOptions)
def swiglu(choice: SwigluChoice, machine: MachineChoice, options: RunOptions) -> None:
    """Simulate a gated feed-forward layer; --config published also takes machine sda-hdl."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        phase(_BUILDING)
        return swiglu_case(choice, target, options.memory_model)

    run_case(prepare, machine, options, choice.default_machine)


@app.command()
@takes(
    DecoderChoice, RequestSource, TokenSource, MachineChoice, RunOptions,
    required=("routing", "kv_lengths"),
)  # fmt: skip
def decoder(
    choice: DecoderChoice,
    requests: RequestSource,
    tokens: TokenSource,
    machine: MachineChoice,
    options: RunOptions,
) -> None:
    """Simulate a decoder layer: QKV generation, decode attention of all heads, experts."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        routing = tokens.read(choice.model)
        served = requests.read()
        phase(_BUILDING)
        return decoder_case(choice, served, routing, target, options.memory_model)

    run_case(prepare, machine, options)
