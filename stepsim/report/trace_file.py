"""The file format of ui.perfetto.dev: tracks, slices, counters, arrows. Times are in ns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from stepsim.deferred import deferred, require
from stepsim.errors import OutputError

pb: Any = deferred("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Upper bounds on the bytes of each item in a file; computed by `sizes`."""

    slice: int
    text: int
    counter: int
    arrow: int
    track: int


def sizes(cycles: int, tracks: int, texts: int) -> Sizes:
    """Sizes in a trace with this length and numbers of tracks and texts."""
    time, track = 1 + _digits(cycles), 1 + _digits(tracks)
    text = 6 + _digits(texts)
    return Sizes(2 * (time + track) + 24, text, time + track + 16, 2 * (time + track + 24), 80)


def _digits(number: int) -> int:
    """Bytes of a number, seven bits each."""
    return max(1, -(-number.bit_length() // 7))


_SEQUENCE: Final = 1
_CLEARED, _NEEDED = 1, 2  # sequence flags
_CHUNK: Final = 1 << 20


def require_perfetto() -> None:
    """Load what writing needs. Raises OutputError when the package is not installed."""
    require("perfetto.protos.perfetto.trace", OutputError, "perfetto_trace_pb2")


class TraceFile:
    """Writes the packets of a trace in chunks.

    Parameters
    ----------
    file : open for writing bytes.
    names : names of all slices; they are written once.
    texts : all texts that annotate slices.
    key : name of these annotations.
    numbers : names of numbers that annotate slices.
    """

    def __init__(
        self, file: IO[bytes], names: Iterable[str], texts: Iterable[str], key: str,
        numbers: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self._file = file
        self._chunk = bytearray()
        self._tracks = 0
        self.written = 0
        first = self._packet(_CLEARED | _NEEDED)
        data = first.interned_data
        self._names: dict[str, int] = {}
        for name in names:
            self._names.setdefault(name, len(self._names) + 1)
        for name, number in self._names.items():
            data.event_names.add(iid=number, name=name)
        self._keys = {name: iid for iid, name in enumerate(numbers, 2)}
        for name, iid in ((key, 1), *self._keys.items()):
            data.debug_annotation_names.add(iid=iid, name=name)
        for number, text in enumerate(texts, 1):
            data.debug_annotation_string_values.add(iid=number, str=text.encode())
        self._write(first)
        self._begin = self._packet(_NEEDED, pb.TrackEvent.TYPE_SLICE_BEGIN)
        self._about = self._packet(_NEEDED, pb.TrackEvent.TYPE_SLICE_BEGIN)
        self._about.track_event.debug_annotations.add(name_iid=1)
        self._end = self._packet(kind=pb.TrackEvent.TYPE_SLICE_END)
        self._count = self._packet(kind=pb.TrackEvent.TYPE_COUNTER)

    def track(self, name: str, parent: int = 0, description: str = "") -> int:
        """Add a track, or a group of tracks in the order of creation; returns its number."""
        return self._add_track(self._track(name, parent, description))

    def counter(self, name: str, parent: int, unit: str, description: str = "") -> int:
        """Add the track of a counter; returns its number."""
        made = self._track(name, parent, description)
        made.track_descriptor.counter.unit_name = unit
        return self._add_track(made)

    def slice(self, track: int, begin: int, end: int, name: str, about: int = -1) -> None:
        """Add a slice; ``about`` is the index of the text that annotates it."""
        packet = self._begin
        if about >= 0:
            packet = self._about
            packet.track_event.debug_annotations[0].string_value_iid = about + 1
        packet.timestamp = begin
        event = packet.track_event
        event.track_uuid = track
        event.name_iid = self._names[name]
        self._write(packet)
        self.end(track, end)

    def begin(
        self, track: int, at: int, name: str, numbers: Mapping[str, int | None],
        about: int = -1, *, leaving: Iterable[int] = (), arriving: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """Begin a slice with numbers, which `end` ends; None is left out.

        Arrows, by number, leave it or arrive there. Those that leave are to be written first.
        """
        packet = self._packet(_NEEDED, pb.TrackEvent.TYPE_SLICE_BEGIN)
        packet.timestamp = at
        event = packet.track_event
        event.track_uuid = track
        if name in self._names:
            event.name_iid = self._names[name]
        else:
            event.name = name
        for key, value in numbers.items():
            if value is not None:
                event.debug_annotations.add(name_iid=self._keys[key], int_value=value)
        if about >= 0:
            event.debug_annotations.add(name_iid=1, string_value_iid=about + 1)
        event.flow_ids.extend(leaving)
        event.terminating_flow_ids.extend(arriving)
        self._write(packet)

    def end(self, track: int, at: int) -> None:
        """End the slice of a track that began last."""
        self._end.timestamp = at
        self._end.track_event.track_uuid = track
        self._write(self._end)

    def count(self, track: int, at: int, value: int) -> None:
        """Set a counter to this value from now on."""
        packet = self._count
        packet.timestamp = at
        packet.track_event.track_uuid = track
        packet.track_event.counter_value = value
        self._write(packet)

    def measure(self, track: int, at: int, value: float) -> None:
        """Set a counter with fractional values to this value from now on."""
        packet = self._packet(kind=pb.TrackEvent.TYPE_COUNTER)
        packet.timestamp = at
        event = packet.track_event
        event.track_uuid, event.double_counter_value = track, value
        self._write(packet)

    def arrow(self, flow: int, source: int, sent: int, target: int, taken: int) -> None:
        """Add an arrow from one track to another."""
        for track, at, ends in ((source, sent, False), (target, taken, True)):
            packet = self._packet(_NEEDED, pb.TrackEvent.TYPE_INSTANT)
            packet.timestamp = at
            event = packet.track_event
            event.track_uuid = track
            event.name_iid = self._names["take" if ends else "send"]
            (event.terminating_flow_ids if ends else event.flow_ids).append(flow)
            self._write(packet)

    def facts(self, track: int, begin: int, end: int, name: str, facts: Mapping[str, Any]) -> None:
        """Add a slice with facts about the whole trace."""
        packet = self._packet(_NEEDED, pb.TrackEvent.TYPE_SLICE_BEGIN)
        packet.timestamp = begin
        event = packet.track_event
        event.track_uuid, event.name = track, name
        for key, value in facts.items():
            kind = "int_value" if isinstance(value, int) else "string_value"
            event.debug_annotations.add(name=key, **{kind: value})
        self._write(packet)
        self.end(track, end)

    def close(self) -> None:
        """Write the remaining data."""
        self._file.write(self._chunk)
        self._chunk.clear()

    def _track(self, name: str, parent: int, description: str) -> pb.TracePacket:
        self._tracks += 1
        packet = self._packet()
        made = packet.track_descriptor
        made.uuid, made.name = self._tracks, name
        made.sibling_order_rank = self._tracks
        made.child_ordering = pb.TrackDescriptor.EXPLICIT
        if parent:
            made.parent_uuid = parent
        if description:
            made.description = description
        return packet

    def _add_track(self, packet: pb.TracePacket) -> int:
        self._write(packet)
        return self._tracks

    def _packet(self, flags: int = 0, kind: Any = None) -> pb.TracePacket:
        packet = pb.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        if flags:
            packet.sequence_flags = flags
        if kind is not None:
            packet.track_event.type = kind
        return packet

    def _write(self, packet: pb.TracePacket) -> None:
        data = packet.SerializeToString()
        chunk, size = self._chunk, len(data)
        before = len(chunk)
        chunk.append(10)  # field 1 of Trace, a packet
        while size > 127:
            chunk.append(size & 127 | 128)
            size >>= 7
        chunk.append(size)
        chunk += data
        self.written += len(chunk) - before
        if len(chunk) > _CHUNK:
            self.close()
