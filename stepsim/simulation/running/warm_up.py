"""Compile the engine, or load it from the cache, before the first run."""

from __future__ import annotations

from stepsim.kernels import Origin, execute, is_jit_disabled, run
from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image


def engine_in_use() -> Origin:
    """Where the next run loads its code from, without loading or compiling it.

    Its ``path`` is None where the engine would be compiled.
    """
    if is_jit_disabled():
        return Origin("python")
    return run.stored() or Origin("compiled")


def ensure_compiled() -> None:
    """Compile the engine unless it is on disk, so that other processes need only load it."""
    if not run.is_stored():
        warm_up()


def warm_up() -> Origin:
    """Compile the engine or load it, and run it once; returns where its code is from."""
    network = Network(
        units=(
            UnitSpec(
                "load", "OffChipLoad", (), (0,), {"tile": [1, 1], "view": [1], "par": 1, "bpe": 2}
            ),
            UnitSpec("store", "OffChipStore", (0,), (), {"tile": [1, 1], "par": 1}),
        ),
        channels=(ChannelSpec("tiles", 2),),
    )
    image = build_image(network)
    execute(image)
    origin: Origin = run.make_ready()
    return origin
