"""Requests with their token ids: a file with a record for each request.

A record is a line of JSON or a row of Parquet with the fields

* ``prompt``: the token ids of the prompt.
* ``output``: the token ids that were generated, or instead ``output_tokens``, their number.
* ``arrival_seconds``: after the start of the service, never decreasing; for all requests or for
  none.

Which blocks of tokens are equal follows from the ids, at any size of blocks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stepsim.errors import TraceError
from stepsim.serving.requests.fields import Fields, RequestFile
from stepsim.serving.requests.prefixes import TokenIds
from stepsim.serving.requests.requests import Requests
from stepsim.serving.seconds import NANOSECONDS
from stepsim.trace_io import records

_FIELDS = ("prompt", "output", "output_tokens", "arrival_seconds")


class TokenFile(RequestFile):
    """The requests of a file with token ids.

    Attributes
    ----------
    path : the file.
    """

    __slots__ = ()

    def _read(self, path: Path) -> Requests:
        prompts, outputs, arrivals, counts = [], [], [], []
        ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        for place, record in records(path):
            fields = Fields(place, record, _FIELDS)
            if ("output" in fields) == ("output_tokens" in fields):
                raise TraceError(
                    f"{place}: has {'both' if 'output' in fields else 'neither'} `output` and "
                    "`output_tokens`, expected one of them"
                )
            prompt = fields.ids("prompt")
            output = fields.ids("output") if "output" in fields else []
            outputs.append(len(output) if "output" in fields else fields.tokens("output_tokens"))
            prompts.append(len(prompt))
            counts.append(len(prompt) + len(output))
            ids.append(np.array(prompt + output, dtype=np.int64))
            if "arrival_seconds" in fields:
                arrivals.append(round(fields.seconds("arrival_seconds") * NANOSECONDS))
        if arrivals and len(arrivals) < len(prompts):
            raise TraceError(
                f"{path}: only {len(arrivals)} of {len(prompts)} requests have `arrival_seconds`; "
                "give it for all requests or for none"
            )
        begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return Requests.of(
            prompts,
            outputs,
            arrival_ns=arrivals or None,
            prefix=TokenIds(begin, np.concatenate(ids)) if ids else None,
            source=str(path),
        )
