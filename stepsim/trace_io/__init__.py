"""Traces recorded elsewhere: expert routing, KV-cache lengths and requests, read, checked and
written.

A routing table comes in from .npy, .npz, Parquet, Arrow IPC or any object with
``__arrow_c_stream__``, and goes out as Parquet or over the same interface, in the versioned schema
of :func:`routing_schema`. A request trace has the schema of :func:`requests_schema`. Every value is
checked on the way in. :func:`import_trace` converts the formats of other tools in constant memory.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
