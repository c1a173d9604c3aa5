// A peer of the engine with the same architecture, written for the units of the compared networks
// alone: local clocks and pace clocks, FIFOs as rings of stamped 64-byte slots, a work list, state
// machines in one record with a dispatch on their kind, and the same counters for every unit, FIFO
// and run.
#include <algorithm>
#include <limits>

#include "network.hpp"

namespace {

constexpr int64_t infinity = int64_t{1} << 62;

enum Payload : int8_t { tile, selector, buffer, ack, tuple };
enum class Status : int8_t { ready, wait_input, wait_output, done, failed };

struct Slot {
    int64_t stamp, pub, rel, hrel, value;
    int32_t rows, cols, off;
    int16_t level, bits;
    int8_t kind, rd;
};
static_assert(sizeof(Slot) == 64);

struct Channel {
    int64_t start, mask, cap, sent, removed, hclose, wait_in, wait_out;
    int32_t producer, consumer;
    int8_t cwait, pwait, closed, gone;
};

struct Unit {
    int64_t clk, h, busy, before, after, fires, flops;
    int64_t cycles, count, position;            // work of a firing; tokens of a source, those sent
    int64_t key, load, kept_flops;              // of the last firing: repeated for a like operand
    int32_t rows, cols, bits, level;            // its result; level of the token that is held
    int32_t in0, out0, nin, nout, private_slot, pc, reserved, wait_channel;
    Kind kind;
    Status state;
};

struct Globals {
    int64_t head, tail, mask, steps, tokens, max_cycles, limit_steps, pause_at;
};

struct State {
    std::vector<Unit> units;
    std::vector<Channel> channels;
    std::vector<Slot> slots;
    std::vector<int32_t> lists, work_list;
    Globals globals;
};

inline void push(State& s, int32_t unit) {
    s.work_list[s.globals.tail & s.globals.mask] = unit;
    s.globals.tail++;
}

inline void copy_payload(const Slot& from, Slot& to) {
    to.value = from.value;
    to.rows = from.rows;
    to.cols = from.cols;
    to.off = from.off;
    to.bits = from.bits;
    to.kind = from.kind;
    to.rd = from.rd;
}

// Blocks of buffers and tuples are counted; no unit here makes one.
inline void count_reference(const Slot& token) {
    if (token.kind == buffer || token.kind == tuple) std::abort();
}

inline void work(Unit& un, int64_t cycles) {
    un.clk += cycles;
    un.busy += cycles;
}

inline bool has_token(const Channel& ch) { return ch.removed != ch.sent; }

inline void closure_ends(Unit& un, const Channel& ch) {
    const int64_t t = ch.hclose + 1;
    if (t > un.clk) {
        un.after += t - un.clk;
        un.clk = t;
    }
    un.h = std::max(un.h, t);
}

inline Status await_token(Unit& un, State& s, int32_t c) {
    Channel& ch = s.channels[c];
    if (has_token(ch)) return Status::ready;
    if (ch.closed) {
        closure_ends(un, ch);
        return Status::done;
    }
    ch.cwait = 1;
    un.wait_channel = c;
    return Status::wait_input;
}

inline Slot& head(Unit& un, State& s, int32_t c) {
    Channel& ch = s.channels[c];
    Slot& token = s.slots[ch.start + (ch.removed & ch.mask)];
    const int64_t gap = token.stamp - un.clk;
    if (gap > 0) {
        un.clk = token.stamp;
        (un.fires > 0 ? ch.wait_in : un.before) += gap;
    }
    un.h = std::max(un.h, token.pub);
    return token;
}

inline void take(Unit& un, State& s, int32_t c) {
    Channel& ch = s.channels[c];
    Slot& token = s.slots[ch.start + (ch.removed & ch.mask)];
    token.rel = un.clk + 1;
    token.hrel = un.h + 1;
    ch.removed++;
    count_reference(token);
    if (ch.pwait) {
        ch.pwait = 0;
        push(s, ch.producer);
    }
}

inline Status room(Unit& un, State& s, int32_t c) {
    Channel& ch = s.channels[c];
    if (ch.sent - ch.removed < ch.cap) return Status::ready;
    if (ch.gone) return Status::failed;
    ch.pwait = 1;
    un.wait_channel = c;
    return Status::wait_output;
}

inline void wait_for_slot(Unit& un, State& s, int32_t c) {
    Channel& ch = s.channels[c];
    if (ch.sent < ch.cap) return;
    const Slot& old = s.slots[ch.start + ((ch.sent - ch.cap) & ch.mask)];
    const int64_t gap = old.rel - un.clk;
    if (gap > 0) {
        un.clk = old.rel;
        ch.wait_out += gap;
    }
    un.h = std::max(un.h, old.hrel);
}

inline Slot& emit(Unit& un, State& s, int32_t c, int64_t when, int16_t level) {
    Channel& ch = s.channels[c];
    wait_for_slot(un, s, c);
    Slot& token = s.slots[ch.start + (ch.sent & ch.mask)];
    token.stamp = std::max(when, un.clk + 1);
    token.pub = un.h + 1;
    token.level = level;
    ch.sent++;
    s.globals.tokens++;
    if (ch.cwait) {
        ch.cwait = 0;
        push(s, ch.consumer);
    }
    return token;
}

// TAKE into the private slot of the unit, level included.
inline Status take_token(Unit& un, State& s, int32_t c, Slot& held) {
    const Status status = await_token(un, s, c);
    if (status != Status::ready) return status;
    const Slot& token = head(un, s, c);
    un.fires++;
    copy_payload(token, held);
    held.level = token.level;
    count_reference(token);
    take(un, s, c);
    return status;
}

inline int64_t shape_key(const Slot& x) {
    const int64_t sides = (int64_t{x.rows} << 21) | x.cols;
    return (((sides << 14) | x.bits) << 3) | x.kind;
}

// What the first operand of a shape costs and becomes: a unit keeps it.
inline void measure(Unit& un, const Slot& x) {
    un.key = shape_key(x);
    un.load = (int64_t{x.rows} * x.cols * x.bits + 511) / 512;
    un.kept_flops = int64_t{x.rows} * x.cols;
    un.rows = x.rows;
    un.cols = x.cols;
    un.bits = x.bits;
}

inline Status fire(Unit& un, State& s, int32_t out, const Slot& x, int64_t load) {
    const int64_t total = un.flops + un.kept_flops;
    const int64_t cycles = std::max(un.cycles, load);
    if (total >= infinity || un.clk + cycles >= infinity) return Status::failed;
    const Status status = room(un, s, out);
    if (status != Status::ready) return status;
    un.flops = total;
    un.fires++;
    work(un, cycles);
    Slot& y = emit(un, s, out, 0, x.level);
    y.kind = tile;
    y.rows = un.rows;
    y.cols = un.cols;
    y.off = x.off;
    y.bits = un.bits;
    y.value = 0;
    y.rd = 0;
    return Status::ready;
}

Status step_source(Unit& un, State& s) {
    const int32_t out = s.lists[un.out0];
    const Slot& token = s.slots[un.private_slot];
    while (un.position < un.count) {
        const Status status = room(un, s, out);
        if (status != Status::ready) return status;
        copy_payload(token, emit(un, s, out, un.clk + 1, token.level));
        count_reference(token);
        work(un, 1);
        un.fires++;
        un.position++;
    }
    return Status::done;
}

Status step_map(Unit& un, State& s) {
    const int32_t in = s.lists[un.in0], out = s.lists[un.out0];
    while (true) {
        Status status = await_token(un, s, in);
        if (status != Status::ready) return status;
        const Slot& x = head(un, s, in);
        if (shape_key(x) != un.key) measure(un, x);
        status = fire(un, s, out, x, x.rd ? un.load : 0);
        if (status != Status::ready) return status;
        take(un, s, in);
    }
}

Status step_join(Unit& un, State& s) {
    const int32_t a = s.lists[un.in0], b = s.lists[un.in0 + 1], out = s.lists[un.out0];
    while (true) {
        for (const int32_t c : {a, b}) {
            Channel& ch = s.channels[c];
            if (!has_token(ch) && !ch.closed) {
                ch.cwait = 1;
                un.wait_channel = c;
                return Status::wait_input;
            }
        }
        const bool first = has_token(s.channels[a]), second = has_token(s.channels[b]);
        if (!first && !second) {
            closure_ends(un, s.channels[a]);
            closure_ends(un, s.channels[b]);
            return Status::done;
        }
        if (!first || !second) return Status::failed;
        const Slot& x = head(un, s, a);
        const Slot& y = head(un, s, b);
        if (x.level != y.level || shape_key(x) != shape_key(y)) return Status::failed;
        if (shape_key(x) != un.key) measure(un, x);
        const Status status = fire(un, s, out, x, (x.rd ? un.load : 0) + (y.rd ? un.load : 0));
        if (status != Status::ready) return status;
        take(un, s, a);
        take(un, s, b);
    }
}

Status step_flatten(Unit& un, State& s) {
    const int32_t in = s.lists[un.in0], out = s.lists[un.out0];
    Slot& held = s.slots[un.private_slot];
    while (true) {
        if (un.pc == 0) {
            const Status status = take_token(un, s, in, held);
            if (status != Status::ready) return status;
            if (held.level > 1)
                held.level--;
            else if (held.level > 0)
                held.level = 0;
            un.pc = 1;
        }
        const Status status = room(un, s, out);
        if (status != Status::ready) return status;
        copy_payload(held, emit(un, s, out, 0, held.level));
        un.pc = 0;
    }
}

Status step_broadcast(Unit& un, State& s) {
    const int32_t in = s.lists[un.in0];
    Slot& held = s.slots[un.private_slot];
    while (true) {
        if (un.pc == 0) {
            const Status status = take_token(un, s, in, held);
            if (status != Status::ready) return status;
            un.reserved = 0;
            un.pc = 1;
        }
        for (; un.reserved < un.nout; un.reserved++) {
            const int32_t out = s.lists[un.out0 + un.reserved];
            const Status status = room(un, s, out);
            if (status != Status::ready) return status;
            wait_for_slot(un, s, out);
        }
        for (int32_t j = 0; j < un.nout; j++) {
            copy_payload(held, emit(un, s, s.lists[un.out0 + j], 0, held.level));
            count_reference(held);
        }
        count_reference(held);
        un.pc = 0;
    }
}

Status step_sink(Unit& un, State& s) {
    const int32_t in = s.lists[un.in0];
    while (true) {
        const Status status = await_token(un, s, in);
        if (status != Status::ready) return status;
        head(un, s, in);
        un.fires++;
        take(un, s, in);
        work(un, 1);
    }
}

Status step(Unit& un, State& s) {
    switch (un.kind) {
        case Kind::source: return step_source(un, s);
        case Kind::map: return step_map(un, s);
        case Kind::flatten: return step_flatten(un, s);
        case Kind::broadcast: return step_broadcast(un, s);
        case Kind::join: return step_join(un, s);
        case Kind::sink: return step_sink(un, s);
    }
    return Status::failed;
}

void end(Unit& un, State& s) {
    for (int32_t j = 0; j < un.nout; j++) {
        Channel& ch = s.channels[s.lists[un.out0 + j]];
        ch.closed = 1;
        ch.hclose = un.h;
        if (ch.cwait) {
            ch.cwait = 0;
            push(s, ch.consumer);
        }
    }
    for (int32_t j = 0; j < un.nin; j++) {
        Channel& ch = s.channels[s.lists[un.in0 + j]];
        ch.gone = 1;
        if (ch.pwait) {
            ch.pwait = 0;
            push(s, ch.producer);
        }
    }
}

// Whether all units have ended; the run also returns at a limit, and when no unit can run.
bool run(State& s) {
    Globals& shared = s.globals;
    size_t ended = 0;
    while (shared.head != shared.tail) {
        Unit& un = s.units[s.work_list[shared.head & shared.mask]];
        shared.head++;
        if (un.state == Status::done || un.state == Status::failed) continue;
        const int64_t fires = un.fires;
        const Status status = step(un, s);
        shared.steps += un.fires - fires;
        un.state = status;
        if (status == Status::failed) return false;
        if (status == Status::done) {
            end(un, s);
            ended++;
        }
        if (un.clk > shared.max_cycles || shared.steps >= shared.limit_steps ||
            shared.steps >= shared.pause_at)
            return false;
    }
    return ended == s.units.size();
}

int64_t power_of_two(int64_t least) {
    int64_t length = 1;
    while (length < least) length *= 2;
    return length;
}

State state_of(const Network& network) {
    State s{};
    for (const int64_t capacity : network.capacities) {
        Channel ch{};
        ch.start = s.slots.size();
        ch.mask = power_of_two(capacity) - 1;
        ch.cap = capacity;
        s.channels.push_back(ch);
        s.slots.resize(s.slots.size() + ch.mask + 1);
    }
    for (const UnitSpec& spec : network.units) {
        Unit un{};
        un.kind = spec.kind;
        un.cycles = spec.cycles;
        un.count = spec.tokens;
        un.in0 = s.lists.size();
        un.nin = spec.inputs.size();
        for (const int32_t c : spec.inputs) {
            s.channels[c].consumer = s.units.size();
            s.lists.push_back(c);
        }
        un.out0 = s.lists.size();
        un.nout = spec.outputs.size();
        for (const int32_t c : spec.outputs) {
            s.channels[c].producer = s.units.size();
            s.lists.push_back(c);
        }
        un.private_slot = s.slots.size();
        Slot token{};
        token.rows = token.cols = token.off = token.bits = 16;
        s.slots.push_back(token);
        s.units.push_back(un);
    }
    const int64_t ring = power_of_two(2 * s.units.size());
    s.work_list.resize(ring);
    s.globals.mask = ring - 1;
    s.globals.max_cycles = s.globals.limit_steps = s.globals.pause_at = infinity;
    for (size_t u = 0; u < s.units.size(); u++) push(s, u);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    const State start = state_of(read_network());
    double best = std::numeric_limits<double>::infinity();
    State s;
    for (int i = 0; i < repeats(argc, argv); i++) {
        s = start;
        const double begin = cpu_seconds();
        const bool finished = run(s);
        best = std::min(best, cpu_seconds() - begin);
        if (!finished) {
            std::fprintf(stderr, "not all units have ended\n");
            return 1;
        }
    }
    int64_t cycles = 0;
    for (const Unit& un : s.units) cycles = std::max(cycles, un.clk);
    report(cycles, s.globals.steps, best);
}
