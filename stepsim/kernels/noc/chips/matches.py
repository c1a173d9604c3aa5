"""Messages that no receive waits for yet, and receives whose message has not come.

The k-th message with the same chunk, source, destination and bytes belongs to the k-th receive of
these. Either waits in a hash table of chains.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel


@inlined
def _bucket(run, chunk, source, destination, amount):
    # Partners are often neighbors, so that the sum of two factors is odd as well.
    mixed = source * 40503 + destination * 30012 + chunk * 20011 + amount % 65536
    return (mixed ^ (mixed >> 13)) % run.buckets


@inlined
def _is(state, entry, chunk, source, destination, amount, receives):
    if entry & 1 != receives:
        return False
    message = state.messages[entry >> 1]
    if message.chunk != chunk or message.amount != amount:
        return False
    if receives != 0:
        return message.post_source == source and message.source == destination
    return message.source == source and message.destination == destination


@kernel
def find(state, chunk, source, destination, amount, receives):
    """Take out the oldest match and return its message, or -1.

    ``receives``: 1 for a receive, whose message is the one that was sent when it was posted; 0 for
    a message.
    """
    bucket = state.buckets[_bucket(state.run[0], chunk, source, destination, amount)]
    before = -1
    entry = bucket.first
    while entry >= 0:
        after = state.match[entry]
        if _is(state, entry, chunk, source, destination, amount, receives):
            if before < 0:
                bucket.first = after
            else:
                state.match[before] = after
            if after < 0:
                bucket.final = before
            return entry >> 1
        before = entry
        entry = after
    return -1


@kernel
def keep(state, chunk, source, destination, amount, entry):
    """Let entry 2k, message k, or 2k + 1, the receive posted with it, wait for its match."""
    bucket = state.buckets[_bucket(state.run[0], chunk, source, destination, amount)]
    state.match[entry] = -1
    if bucket.first < 0:
        bucket.first = entry
    else:
        state.match[bucket.final] = entry
    bucket.final = entry
