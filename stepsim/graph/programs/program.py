"""Program: the collection of operators that one ``with`` block builds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import Token
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stepsim.arguments import flag, shown, text_of
from stepsim.errors import ArgError, GraphError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import weighed, weights_of
from stepsim.graph.metrics import Metrics, measure
from stepsim.graph.operator import Operator, Output, Whole
from stepsim.graph.programs import draw, fingerprint
from stepsim.graph.programs.current import CURRENT_PROGRAM
from stepsim.graph.programs.findings import findings_of
from stepsim.graph.programs.keeping import Kept
from stepsim.graph.programs.sizes import ProgramSizes
from stepsim.graph.sizes.limits import COMPUTE_BW, FIFO_DEPTH, PAR_DISPATCH
from stepsim.graph.stream import Stream
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.graph.rewrites.downtile import Downtiled

_Made = TypeVar("_Made")


class Program(ProgramSizes):
    """Operators and streams of one STeP program, with program-wide defaults.

    Operators are built inside ``with st.Program(...) as program:``. At the end of the block every
    stream must be read or consumed and every feedback connected; then the program is finished, and
    can be measured (:meth:`metrics`), simulated (``st.simulate``), evaluated (``run_functional``)
    and drawn.

    Parameters
    ----------
    name : shown in reports.
    compute_bw : FLOPs per cycle of operators that do not state their own.
    par_dispatch : off-chip requests a memory operator issues per cycle.
    fifo_depth : depth of FIFOs that do not state one, in tokens, unless the run or the machine
        (``fifo.depth``) states one; None: theirs, or otherwise 1024.
    flop_weights : FLOPs per unit of work, usually per scalar, of functions of ``st.fn`` by name,
        replacing their defaults: ``{"exp": 1}``. Symbolic and executed FLOPs and cycles follow.

    Raises
    ------
    ArgError : an argument is out of its range, or there is no function of this name.
    GraphError : at the end of the block, one report of all streams without readers and all
        feedbacks that are not connected; or programs are nested.

    Example
    -------
    >>> with st.Program("silu", compute_bw=1024) as program:
    ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
    ...     out = st.linear_store(x.map(st.fn.silu), "out")
    >>> print(program)
    Program 'silu': 4 operators (T: off-chip traffic in bytes, M: on-chip memory in bytes, ...
    ...
    >>> st.simulate(program, machine="sda-1024").cycles
    288
    """

    def __init__(
        self,
        name: str = "program",
        *,
        compute_bw: int | None = None,
        par_dispatch: int = 1,
        fifo_depth: int | None = 2,
        flop_weights: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(text_of("Program: name", name))
        where = f"Program '{name}':"
        self.compute_bw = (
            None if compute_bw is None else COMPUTE_BW.checked(f"{where} compute_bw", compute_bw)
        )
        self.par_dispatch = PAR_DISPATCH.checked(f"{where} par_dispatch", par_dispatch)
        self.fifo_depth = (
            None if fifo_depth is None else FIFO_DEPTH.checked(f"{where} fifo_depth", fifo_depth)
        )
        self.flop_weights = weights_of(f"{where} flop_weights", flop_weights)
        self.operators: list[Operator] = []
        self.depths: dict[tuple[int, int], int] = {}
        self.closed = False
        self.chip = 0
        self._readers: dict[tuple[int, int], list[tuple[Operator, int]]] = {}
        self._token: Token[Program | None] | None = None
        self._kept = Kept()
        self.order: tuple[int, ...] | None = None
        self.whole: Whole | None = None
        self.downtiled: Downtiled | None = None
        # Whether it was read from a graph file whose F32 stands for bf16, as it is then written.
        self.mock_bf16 = False

    # building

    def __enter__(self) -> Program:
        outer = CURRENT_PROGRAM.get()
        if outer is not None:
            raise GraphError(
                f"program '{self.name}' opened inside '{outer.name}'. Programs do not nest; close "
                "the outer `with` block first"
            )
        if self.closed:
            raise GraphError(f"program '{self.name}' is finished; make a new Program to build more")
        self._token = CURRENT_PROGRAM.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._token is not None
        CURRENT_PROGRAM.reset(self._token)
        self._token = None
        if kind is None:
            self.check()
            self.closed = True

    @property
    def next_id(self) -> int:
        """The number that the next operator gets."""
        return len(self.operators)

    def register(self, operator: Operator, outputs: Sequence[Output]) -> tuple[Stream, ...]:
        """Append an operator whose checks have passed."""
        operator.id = len(self.operators)
        operator.program = self
        if operator.chip != self.chip:
            operator.chip = self.chip
        operator.outputs = tuple(
            [Stream(operator, number, *output) for number, output in enumerate(outputs)]
        )
        self.operators.append(operator)
        for position, stream in enumerate(operator.inputs):
            self._readers.setdefault(stream.key, []).append((operator, position))
        return operator.outputs

    @property
    def chips(self) -> int:
        """The number of chips that a machine must have to run it: one more than the highest."""
        return 1 + max((op.chip for op in self.operators if op.loops_back() is None), default=0)

    def place(self, order: Sequence[int]) -> None:
        """State the order in which operators enter the network, by their ids; by default it is
        inferred."""
        self.order = tuple(order)

    def readers(self, stream: Stream) -> list[tuple[Operator, int]]:
        """Operators that read ``stream`` and the input position, in creation order."""
        self._own(stream)
        return list(self._readers.get(stream.key, ()))

    def _own(self, stream: object) -> None:
        if not isinstance(stream, Stream):
            raise ArgError(f"program '{self.name}': expected a stream, found {shown(stream)}")
        if stream.program is not self:
            raise GraphError(
                f"{stream!r} belongs to program '{stream.program.name}', not '{self.name}'"
            )

    def weighed(self, fn: Function) -> Function:
        """The function with the FLOP weight of this program."""
        return weighed(fn, self.flop_weights) if self.flop_weights else fn

    def set_depth(self, stream: Stream, depth: int) -> None:
        """Set the FIFO depth of a stream, which may be stated once."""
        self._own(stream)
        depth = FIFO_DEPTH.checked(f"{stream!r}: the FIFO depth", depth)
        if self.depths.setdefault(stream.key, depth) != depth:
            raise ArgError(
                f"{stream!r}: depth {depth} contradicts depth {self.depths[stream.key]} set "
                "before. State the depth of a stream once"
            )

    # finished programs

    def check(self) -> None:
        """Raise one GraphError with every finding about dangling streams and feedback."""
        findings = list(findings_of(self, self._readers))
        if findings:
            noun = "finding" if len(findings) == 1 else "findings"
            lines = "".join(f"\n  - {f}" for f in findings)
            raise GraphError(f"program '{self.name}': {len(findings)} {noun}{lines}")

    def metrics(
        self,
        *,
        counting: str = "executed",
        count_fifos: bool = False,
        on_demand: bool | None = None,
    ) -> Metrics:
        """Symbolic off-chip traffic, on-chip memory and FLOPs.

        Nothing is run. Sizes that depend on data are symbols, to which ``bind`` of the result gives
        values.

        Parameters
        ----------
        counting : ``executed``, ``paper``, ``published`` or ``published2``; see the glossary of
            metrics.
        count_fifos : whether FIFOs count as on-chip memory.
        on_demand : whether operators that receive no data are excluded from memory; None: as
            defined by the counting.

        Raises
        ------
        ArgError : there is no such counting.

        Example
        -------
        >>> with st.Program("silu", compute_bw=1024) as program:
        ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        ...     out = st.linear_store(x.map(st.fn.silu), "out")
        >>> program.metrics()
        <Metrics of 'silu' (executed): off-chip traffic 16,384 bytes, on-chip memory 8,192 ...>
        """
        where = f"program '{self.name}', metrics:"
        count_fifos = flag(f"{where} count_fifos", count_fifos)
        if on_demand is not None:
            on_demand = flag(f"{where} on_demand", on_demand)
        return measure(self, counting=counting, count_fifos=count_fifos, on_demand=on_demand)

    def rewrite(self, rule: Callable[[Program], Any]) -> Any:
        """Apply a rewrite; it returns a new program (and whatever else it documents)."""
        if not callable(rule):
            raise ArgError(
                f"program '{self.name}', rewrite: rule must be a function, found {shown(rule)}"
            )
        return rule(self)

    def downtile(self, rows: int = 16, cols: int = 16, *, pad: bool = False) -> Program:
        """The same program on tiles of the hardware's size (STeP paper, appendix B.2).

        A stream of tiles ``R x C`` becomes one with two more inner dims, ``[R / rows, C / cols]``,
        of pieces ``rows x cols``; a side of 1 stays 1, and streams of single scalars, selectors and
        integers are unchanged. Values, symbolic off-chip traffic and FLOPs are those of the
        original, and so are symbols and routings, so that bindings are valid for both. The new
        program maps streams of the original to its own in ``downtiled``.
        Parameters
        ----------
        rows, cols : sides of a hardware tile; they must be equal for matrix products.
        pad : whether to cut sides that these do not divide into the fewest equal pieces that fit,
            which only partly fill hardware tiles. False refuses such sides.

        Raises
        ------
        GraphError : one report of all operators that cannot be rewritten for such tiles, with the
            reasons.
        ArgError : a side is out of range.

        Example
        -------
        >>> with st.Program("silu", compute_bw=1024) as program:
        ...     x = st.linear_load(st.spec(64, 64), tile=(32, 64)).flatten(0, 1)
        ...     out = st.linear_store(x.map(st.fn.silu), "out")
        >>> small = program.downtile()
        >>> small.downtiled.stream(x)
        Stream[2, 2, 4] of Tile[16x16 bf16] <- flatten#1
        """
        # The rewrite is in a layer above this module.
        room = importlib.import_module("stepsim.graph.rewrites.downtile")
        made: Program = room.downtile(self, rows, cols, pad=pad)
        return made

    def fingerprint(self) -> str:
        """SHA-256 over structure: operators, parameters, shapes, types, wiring and defaults."""
        return self.kept(
            "fingerprint", lambda: fingerprint.fingerprint(self, fifo_depth=self.fifo_depth)
        )

    def kept(self, name: Hashable, make: Callable[[], _Made]) -> _Made:
        """The result of ``make`` for a finished program, computed once and cached under a name.

        It is valid for the depths and assumptions that the user may still state after the block,
        and for the current values of operators. Only the most recent entries are kept.
        """
        return self._kept.get(self, name, make) if self.closed else make()

    def to_dot(self) -> str:
        """Graphviz text."""
        return draw.to_dot(self)

    @typed
    def to_graph(
        self,
        path: str | Path | None = None,
        *,
        generation: str = "B",
        bindings: Mapping[Any, Any] | None = None,
        numbers: Mapping[str, Any] | str | Path | None = None,
        depths: bool = True,
        mock_bf16: bool = False,
    ) -> bytes:
        """The program in the public graph format, also written to ``path`` (``graph.pb``).

        Inferred broadcasts are written as the last operators, so that a reader builds the
        same network. Selectors and integers are written as ``.npy`` files next to ``path``; without
        a path they are not written, and :func:`load_graph` needs them as ``arrays``. Labels, values
        of tensors and the number of tiles that a random store holds cannot be stored in the format.
        Needs ``pip install 'stepsim[graph]'``.

        Parameters
        ----------
        generation : ``A`` (2025) or ``B`` (2026).
        bindings : indices of routings made from a spec.
        numbers : numbers of operators, types and functions, as in :func:`load_graph`.
        depths : whether to refuse FIFO depths of streams, which the format cannot express; False
            leaves them out.
        mock_bf16 : write bf16 as F32, the only type of floats of the format; the file is then run
            with ``mock_bf16`` as well, as in :func:`load_graph`. Programs read so are written so.

        Raises
        ------
        GraphFileError : the format cannot express an operator, type or depth, or the public
            simulator would not read a type in its place or take the level at which a stream ends;
            the message names the operator.
        LoweringError : the program is still open, or an operator has no unit.
        OutputError : a file cannot be written.
        """
        # The writer wires programs, so it is in a layer above this module.
        writer = importlib.import_module("stepsim.graph.graph_file.writer")
        data: bytes = writer.to_graph(
            self, path, generation=generation, bindings=bindings, numbers=numbers, depths=depths,
            mock_bf16=mock_bf16,
        )  # fmt: skip
        return data

    def to_mermaid(self) -> str:
        """Mermaid flowchart text."""
        return draw.to_mermaid(self)

    def __repr__(self) -> str:
        return f"<Program '{self.name}': {len(self.operators)} operators>"

    def __str__(self) -> str:
        return draw.listing(self.metrics())

    def __getstate__(self) -> Mapping[str, Any]:
        state = self.__dict__.copy()
        state["_token"] = None
        state["_kept"] = Kept()
        return state


def check_program(where: str, program: object) -> None:
    """Refuse anything but a program, with ArgError; ``where`` is the function that needs one."""
    if not isinstance(program, Program):
        raise ArgError(f"{where}: expected a stepsim Program, found {shown(program)}")
