// Transfers on a network in time steps, by the rules of tt-npe that the model `npe` follows: what
// every port is asked for, one reduction of every transfer, float32 throughout. Nothing is kept but
// when each transfer starts and ends.
//
// Reads any number of traces: step, transfers, ports; the rate of every port; of every transfer its
// first cycle, bytes, rate, transfers that it waits for, cycles after them, its path (number of
// ports, place of the sink, ports) and the transfers that wait for it. Prints the sum of all ends,
// the number of transfers and the least CPU seconds of a run of all traces.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "network.hpp"

namespace {

struct Transfer {
    int64_t offset, total, waiting, delay, sink;
    float base;
    std::vector<int64_t> path, child;
    int64_t start, end, after, moved;
    float speed;
};

struct Trace {
    int64_t step;
    std::vector<float> rate, demand;
    std::vector<Transfer> transfers;
    std::vector<int64_t> queue;
};

template <typename T>
bool read_one(T& value) {
    return static_cast<bool>(std::cin >> value);
}

std::vector<Trace> read_traces() {
    std::vector<Trace> traces;
    int64_t step, transfers, ports;
    while (read_one(step) && read_one(transfers) && read_one(ports)) {
        Trace trace{step, std::vector<float>(ports), std::vector<float>(ports), {}, {}};
        for (float& rate : trace.rate) read_one(rate);
        for (int64_t i = 0; i < transfers; i++) {
            Transfer t{};
            int64_t length, children;
            std::cin >> t.offset >> t.total >> t.base >> t.waiting >> t.delay >> length >> t.sink;
            t.path.resize(length);
            for (int64_t& port : t.path) read_one(port);
            read_one(children);
            t.child.resize(children);
            for (int64_t& child : t.child) read_one(child);
            t.start = t.offset;
            t.after = t.waiting ? 0 : -(int64_t{1} << 60);
            trace.transfers.push_back(t);
            trace.queue.push_back(i);
        }
        std::sort(trace.queue.begin(), trace.queue.end(), [&](int64_t a, int64_t b) {
            return std::pair(trace.transfers[a].offset, a) > std::pair(trace.transfers[b].offset, b);
        });
        traces.push_back(std::move(trace));
    }
    return traces;
}

void slow_down(Trace& trace, const std::vector<int64_t>& live, int64_t now) {
    for (int64_t i : live)
        for (int64_t port : trace.transfers[i].path) trace.demand[port] = 0;
    for (int64_t i : live) {
        const Transfer& t = trace.transfers[i];
        const float active = now - std::max(now - trace.step, t.start);
        const float asked = active / static_cast<float>(trace.step) * t.speed;
        for (int64_t port : t.path) trace.demand[port] += asked;
    }
    for (int64_t i : live) {
        Transfer& t = trace.transfers[i];
        float factor = std::numeric_limits<float>::infinity(), most = 0;
        int64_t widest = -1;
        for (int64_t at = 1; at < t.sink; at++) {
            const int64_t port = t.path[at];
            if (trace.demand[port] > most) most = trace.demand[port], widest = port;
        }
        if (widest >= 0) factor = trace.rate[widest] / most;
        for (int64_t port : {t.path.front(), t.path[t.sink]})
            if (trace.demand[port] > 0)
                factor = std::min(factor, trace.rate[port] / trace.demand[port]);
        if (factor < 1) t.speed = t.speed * (1.0 - static_cast<double>(1 - factor));
    }
}

void release(Trace& trace, const Transfer& t) {
    for (int64_t child : t.child) {
        Transfer& other = trace.transfers[child];
        other.after = std::max(other.after, t.end + other.delay);
        other.waiting--;
    }
}

int64_t run(Trace& trace) {
    const int64_t step = trace.step;
    std::vector<int64_t> live;
    int64_t last = static_cast<int64_t>(trace.queue.size()) - 1, now = step, ends = 0;
    while (last >= 0 || !live.empty()) {
        for (int64_t i = last; i >= 0 && trace.transfers[trace.queue[i]].offset <= now; i--) {
            Transfer& t = trace.transfers[trace.queue[i]];
            if (t.waiting || t.after > now) continue;
            live.push_back(trace.queue[i]);
            t.start = std::max(t.start, t.after);
            std::swap(trace.queue[i], trace.queue[last--]);
        }
        for (int64_t i : live) trace.transfers[i].speed = trace.transfers[i].base;
        slow_down(trace, live, now);
        const int64_t begun = now - step;
        size_t kept = 0;
        for (int64_t i : live) {
            Transfer& t = trace.transfers[i];
            int64_t active = std::min(step, now - t.start);
            if (t.start < begun && begun - step <= t.after && t.after < begun)
                active = now - std::max(t.start, t.after);
            const int64_t left = t.total - t.moved;
            const int64_t moved =
                std::min<int64_t>(left, static_cast<float>(active) * t.speed);
            t.moved += moved;
            if (moved < left) {
                live[kept++] = i;
                continue;
            }
            const float cycles = std::ceil(static_cast<float>(moved) / t.speed);
            t.end = static_cast<float>(std::max(t.start, begun)) + cycles;
            ends += t.end;
            release(trace, t);
        }
        live.resize(kept);
        now += step;
        if (live.empty() && last >= 0) {
            const int64_t coming = trace.transfers[trace.queue[last]].offset;
            if (coming > now) now += (coming - now + step - 1) / step * step;
        }
    }
    return ends;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<Trace> traces = read_traces();
    double best = std::numeric_limits<double>::infinity();
    int64_t ends = 0, transfers = 0;
    for (int i = 0; i < repeats(argc, argv); i++) {
        double seconds = 0;
        ends = transfers = 0;
        for (const Trace& trace : traces) {
            Trace copy = trace;
            const double begin = cpu_seconds();
            ends += run(copy);
            seconds += cpu_seconds() - begin;
            transfers += trace.transfers.size();
        }
        best = std::min(best, seconds);
    }
    report(ends, transfers, best);
}
