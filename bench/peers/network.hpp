// The network that both C++ peers read from standard input, and the clock they measure with.
//
//   units channels
//   capacity of every channel
//   kind cycles tokens inputs outputs, then the numbers of these channels, for every unit
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <vector>

enum class Kind { source, map, flatten, broadcast, join, sink };

struct UnitSpec {
    Kind kind;
    int64_t cycles;  // of work for each firing
    int64_t tokens;  // that a source sends
    std::vector<int32_t> inputs, outputs;
};

struct Network {
    std::vector<int64_t> capacities;
    std::vector<UnitSpec> units;
};

inline Network read_network() {
    size_t units, channels;
    std::cin >> units >> channels;
    Network network;
    network.capacities.resize(channels);
    for (auto& capacity : network.capacities) std::cin >> capacity;
    network.units.resize(units);
    for (auto& unit : network.units) {
        int kind;
        size_t inputs, outputs;
        std::cin >> kind >> unit.cycles >> unit.tokens >> inputs >> outputs;
        unit.kind = static_cast<Kind>(kind);
        unit.inputs.resize(inputs);
        unit.outputs.resize(outputs);
        for (auto& channel : unit.inputs) std::cin >> channel;
        for (auto& channel : unit.outputs) std::cin >> channel;
    }
    if (!std::cin) {
        std::fprintf(stderr, "the network on standard input is not complete\n");
        std::exit(2);
    }
    return network;
}

inline double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Runs that one process repeats; the least of their times is reported, for a machine is only ever
// slowed down by its other work.
inline int repeats(int argc, char** argv) { return argc > 1 ? std::atoi(argv[1]) : 1; }

inline void report(int64_t cycles, int64_t firings, double seconds) {
    std::printf("%lld %lld %.9f\n", (long long)cycles, (long long)firings, seconds);
}
