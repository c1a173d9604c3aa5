"""Traces for ui.perfetto.dev, as a reader of the format sees them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

__all__ = ["ReadBack", "perfetto"]

perfetto = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the extra perfetto"
)


class ReadBack:
    """A trace as a reader of the format sees it."""

    def __init__(self, path: Path) -> None:
        trace = perfetto.Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks: dict[int, Any] = {}
        self.slices: dict[str, list[tuple[int, int, str, str]]] = defaultdict(list)
        self.counts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.flows: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self.of_track: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self.facts: dict[str, Any] = {}
        self.notes: list[tuple[int, int, str, dict[str, int]]] = []
        names: dict[int, str] = {}
        texts: dict[int, str] = {}
        keys: dict[int, str] = {}
        open_: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        kinds = perfetto.TrackEvent
        for packet in trace.packet:
            if packet.HasField("interned_data"):
                assert packet.sequence_flags & 1
                names |= {e.iid: e.name for e in packet.interned_data.event_names}
                keys |= {e.iid: e.name for e in packet.interned_data.debug_annotation_names}
                values = packet.interned_data.debug_annotation_string_values
                texts |= {e.iid: e.str.decode() for e in values}
            if packet.HasField("track_descriptor"):
                own = packet.track_descriptor
                assert own.uuid not in self.tracks
                assert not own.parent_uuid or own.parent_uuid in self.tracks
                self.tracks[own.uuid] = own
            if not packet.HasField("track_event"):
                continue
            event, at = packet.track_event, packet.timestamp
            where = self.tracks[event.track_uuid].name
            name = names.get(event.name_iid, event.name)
            if event.type == kinds.TYPE_SLICE_BEGIN:
                text, numbers = "", {}
                for note in event.debug_annotations:
                    if note.name:
                        self.facts[note.name] = note.string_value or note.int_value
                    elif note.string_value_iid:
                        text = texts[note.string_value_iid]
                    else:
                        numbers[keys[note.name_iid]] = note.int_value
                self.notes.append((event.track_uuid, at, name, numbers))
                for flow in (*event.flow_ids, *event.terminating_flow_ids):
                    self.flows[flow].append((where, at))
                open_[event.track_uuid].append((at, name, text))
            elif event.type == kinds.TYPE_SLICE_END:
                begin, begun, text = open_[event.track_uuid].pop()
                assert begin <= at
                self.slices[where].append((begin, at, begun, text))
                self.of_track[event.track_uuid].append((begin, at, begun))
            elif event.type == kinds.TYPE_COUNTER:
                whole = event.HasField("counter_value")
                value = event.counter_value if whole else event.double_counter_value
                self.counts[where].append((at, value))
            else:
                assert event.type == kinds.TYPE_INSTANT
                (flow,) = (*event.flow_ids, *event.terminating_flow_ids)
                self.flows[flow].append((where, at))
        assert not any(open_.values())

    def spent(self, track: str, name: str) -> int:
        return sum(end - begin for begin, end, called, _ in self.slices[track] if called == name)

    def path(self, uuid: int) -> list[str]:
        own = self.tracks[uuid]
        return [*(self.path(own.parent_uuid) if own.parent_uuid else []), own.name]
