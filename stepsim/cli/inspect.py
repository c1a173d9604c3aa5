"""``stepsim inspect``: look at a workload without simulating it."""

from __future__ import annotations

import typer

from stepsim.cli.attention import AttentionChoice, attention_case
from stepsim.cli.decoder import DecoderChoice, decoder_case
from stepsim.cli.inputs import RequestSource, TokenSource
from stepsim.cli.listing import ListOptions, list_case
from stepsim.cli.machine_choice import MachineChoice
from stepsim.cli.moe import MoeChoice, moe_case
from stepsim.cli.signature import takes
from stepsim.cli.swiglu import SwigluChoice, swiglu_case

__all__ = ["app"]

app = typer.Typer(help="Show a workload's graph, shapes and metrics.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
@takes(MoeChoice, TokenSource, MachineChoice, ListOptions)
def moe(
    choice: MoeChoice, source: TokenSource, machine: MachineChoice, options: ListOptions
) -> None:
    """Show a mixture-of-experts layer: operators, symbolic shapes and metrics; no simulation.

    Without --routing there are formulas only, and --batch is the number of tokens (64).
    """
    target, routing = machine.load(), source.read(choice.model)
    tokens = source.count(routing)
    case = moe_case(choice, tokens, routing, target, options.memory_model, symbolic=True)
    list_case(case, options)


@app.command()
@takes(AttentionChoice, RequestSource, MachineChoice, ListOptions)
def attention(
    choice: AttentionChoice, source: RequestSource, machine: MachineChoice, options: ListOptions
) -> None:
    """Show decode attention of one KV head; no simulation.

    Without --kv-lengths there are formulas only, and --batch is the number of requests (64).
    """
    target = machine.load()
    list_case(attention_case(choice, source.read(), target, options.memory_model), options)


@app.command()
@takes(SwigluChoice, MachineChoice, ListOptions)
def swiglu(choice: SwigluChoice, machine: MachineChoice, options: ListOptions) -> None:
    """Show a gated feed-forward layer; no simulation."""
    target = machine.load(choice.default_machine)
    list_case(swiglu_case(choice, target, options.memory_model), options)


@app.command()
@takes(DecoderChoice, RequestSource, TokenSource, MachineChoice, ListOptions)
def decoder(
    choice: DecoderChoice,
    requests: RequestSource,
    tokens: TokenSource,
    machine: MachineChoice,
    options: ListOptions,
) -> None:
    """Show a decoder layer; no simulation.

    Without --routing and --kv-lengths there are formulas only. Without either, --batch is the
    number of requests (64).
    """
    target, routing = machine.load(), tokens.read(choice.model)
    served = requests.read(tokens.count(routing))
    case = decoder_case(choice, served, routing, target, options.memory_model, symbolic=True)
    list_case(case, options)
