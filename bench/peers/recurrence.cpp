// The max-plus recurrence of a chain and nothing else: no units, no work list, no statistics. It is
// the lower limit of what any simulator of the chain costs that computes every stamp.
//
// Token k of stage u is handed on at
//
//   c[u][k] = max(max(c[u][k-1], c[u-1][k] + 1) + work, r[u][k-depth] + 1)
//
// where r is when the next stage freed the slot: at its own c if it holds a token while it works,
// or when it had seen the token if it takes it first.
#include <algorithm>
#include <limits>

#include "network.hpp"

namespace {

template <bool takes_first>
int64_t run(int64_t stages, int64_t tokens, int64_t depth, int64_t cycles) {
    // By stage: clock, and the cycle from which the slots of its output are free.
    std::vector<int64_t> clock(stages + 1);
    std::vector<int64_t> free_at((stages + 1) * depth);
    int64_t source = 0, sink = 0, slot = 0;
    for (int64_t k = 0; k < tokens; k++) {
        int64_t* __restrict free = free_at.data() + slot * (stages + 1);
        int64_t* __restrict at = clock.data();
        source = std::max(source, free[0]);
        int64_t stamp = source + 1;
        source++;
        for (int64_t u = 0; u < stages; u++) {
            int64_t now = std::max(at[u], stamp);
            if (takes_first) free[u] = now + 1;
            now = std::max(now + cycles, free[u + 1]);
            if (!takes_first) free[u] = now + 1;
            at[u] = now;
            stamp = now + 1;
        }
        sink = std::max(sink, stamp);
        free[stages] = sink + 1;
        sink++;
        slot = slot + 1 < depth ? slot + 1 : 0;
    }
    int64_t last = std::max(source, sink);
    for (const int64_t c : clock) last = std::max(last, c);
    return last;
}

}  // namespace

int main(int argc, char** argv) {
    const Network network = read_network();
    const int64_t stages = network.units.size() - 2;
    const int64_t tokens = network.units.front().tokens;
    const UnitSpec& stage = network.units[1];
    for (size_t u = 1; u + 1 < network.units.size(); u++) {
        const UnitSpec& unit = network.units[u];
        if (unit.kind != stage.kind || unit.cycles != stage.cycles ||
            (unit.kind != Kind::map && unit.kind != Kind::flatten)) {
            std::fprintf(stderr, "the recurrence is that of a chain of equal stages\n");
            return 2;
        }
    }
    double best = std::numeric_limits<double>::infinity();
    int64_t cycles = 0;
    for (int i = 0; i < repeats(argc, argv); i++) {
        const double begin = cpu_seconds();
        cycles = stage.kind == Kind::map
                     ? run<false>(stages, tokens, network.capacities[0], stage.cycles)
                     : run<true>(stages, tokens, network.capacities[0], stage.cycles);
        best = std::min(best, cpu_seconds() - begin);
    }
    report(cycles, (stages + 2) * tokens, best);
}
