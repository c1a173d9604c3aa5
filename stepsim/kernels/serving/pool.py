"""Blocks of keys and values: the list of free ones, and the index of those with labels.

Free blocks form a ring through the end, which is the record behind the last block. A free block
may keep its label; it is found until it is taken. The two pools differ in where blocks go that are
given back, and in which of several blocks with one label is found; see
:class:`~stepsim.kernels.serving.layout.Pool`.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.serving.layout import UNLIMITED, Pool


@inlined
def _unlink(state, block):
    blocks = state.blocks
    before = blocks[block].prev
    after = blocks[block].next
    blocks[before].next = after
    blocks[after].prev = before


@inlined
def _insert(state, block, after):
    # Put a block before another one of the list of free blocks.
    blocks = state.blocks
    before = blocks[after].prev
    blocks[block].prev = before
    blocks[block].next = after
    blocks[before].next = block
    blocks[after].prev = block


@inlined
def found(state, label):
    """The block that is found by a label, -1 without one."""
    return state.index[label]


@kernel
def put_label(state, block, label):
    """Have a block be found by its label from now on."""
    g = state.engine[0]
    blocks = state.blocks
    blocks[block].label = label
    g.deficit -= 1
    oldest = state.index[label]
    if g.pool == Pool.RECORDED or oldest < 0:
        state.index[label] = block
        blocks[block].older = block
        blocks[block].newer = block
        return
    newest = blocks[oldest].older
    blocks[block].older = newest
    blocks[block].newer = oldest
    blocks[newest].newer = block
    blocks[oldest].older = block


@kernel
def _remove_label(state, block):
    g = state.engine[0]
    blocks = state.blocks
    label = blocks[block].label
    blocks[block].label = -1
    if g.pool == Pool.RECORDED:
        if state.index[label] == block:
            state.index[label] = -1
        return
    newer = blocks[block].newer
    if newer == block:
        state.index[label] = -1
        return
    older = blocks[block].older
    blocks[older].newer = newer
    blocks[newer].older = older
    if state.index[label] == block:
        state.index[label] = newer


@kernel
def take_block(state):
    """The block at the head of the list of free ones, which must not be empty."""
    g = state.engine[0]
    block = state.blocks[g.blocks].next
    _unlink(state, block)
    if state.blocks[block].label >= 0:
        _remove_label(state, block)
    state.blocks[block].users = 1
    g.free -= 1
    return block


@inlined
def _share_block(state, block):
    record = state.blocks[block]
    if record.users == 0:
        _unlink(state, block)
        state.engine[0].free -= 1
    record.users += 1


@inlined
def _first_label_at(g, request):
    if g.caching != 0 and request.labeled < request.labels:
        return (request.labeled + 1) * g.block
    return UNLIMITED


@kernel
def release_table(state, r):
    """Give back all blocks of a request, from the last to the first."""
    g = state.engine[0]
    request = state.requests[r]
    end = g.blocks
    front = state.blocks[end].next  # those without labels come before it
    for k in range(request.held - 1, -1, -1):
        block = state.tables[request.table + k]
        record = state.blocks[block]
        record.users -= 1
        if record.users > 0:
            continue
        g.free += 1
        g.deficit -= 1
        if record.label < 0 and g.pool == Pool.VLLM:
            _insert(state, block, front)
        else:
            _insert(state, block, end)
            if front == end:
                front = block
    request.held = 0
    request.labeled = 0
    request.index_at = _first_label_at(g, request)


@kernel
def begin_table(state, r, hits):
    """Have a request hold the blocks that were found for it, which its table has already."""
    request = state.requests[r]
    for k in range(hits):
        _share_block(state, state.tables[request.table + k])
    request.held = hits
    request.labeled = hits
    request.index_at = _first_label_at(state.engine[0], request)


@kernel
def label_blocks(state, r, tokens):
    """Give labels to the blocks of a request that so many tokens fill."""
    g = state.engine[0]
    request = state.requests[r]
    while request.index_at <= tokens and request.labeled < request.held:
        k = request.labeled
        put_label(state, state.tables[request.table + k], state.labels[request.label + k])
        request.labeled = k + 1
        request.index_at = _first_label_at(g, request)


@inlined
def blocks_for(g, tokens):
    """Blocks for so many tokens of a request."""
    return (min(tokens, g.max_len) + g.block - 1) // g.block


@kernel
def take_blocks(state, r, tokens):
    """Take what a request lacks for so many tokens; whether there are enough, or else nothing."""
    g = state.engine[0]
    request = state.requests[r]
    need = blocks_for(g, tokens) - request.held
    if need > g.free:
        return False
    for _ in range(need):
        state.tables[request.table + request.held] = take_block(state)
        request.held += 1
    return True
