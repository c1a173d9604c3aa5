"""Routes of multicasts to a rectangle of places, as tt-npe loads them."""

from __future__ import annotations

import numpy as np

from stepsim.errors import ArgError
from stepsim.noc.topology import Routes, Topology
from stepsim.noc.traffic import Traffic


def multicast_routes(traffic: Traffic, topology: Topology) -> Routes:
    """Routes of traffic some of which is multicast.

    A multicast loads the links to the last row of its rectangle on network 0, those to the last
    column on network 1, sorted by number, and the sinks of all worker cores in the rectangle.

    Raises
    ------
    ArgError : the network does not have the two one-way tori.
    """
    network = topology.network
    if network.routing != "one-way":
        raise ArgError(
            f"last: multicast is defined for networks with routing 'one-way', such as wormhole; "
            f"network '{network.name}' has routing '{network.routing}'; send to every place "
            "separately"
        )
    routes = topology.routes(traffic.source, traffic.destination, traffic.network)
    letters = np.array(list(network.core_letters))
    paths, sinks = [], []
    for i in range(len(traffic)):
        path = routes.path[routes.begin[i] : routes.begin[i + 1]]
        count = len(path) - 1
        if traffic.last[i] != traffic.destination[i]:
            upper, left = divmod(int(traffic.destination[i]), network.cols)
            lower, right = divmod(int(traffic.last[i]), network.cols)
            rows, cols = np.arange(upper, lower + 1), np.arange(left, right + 1)
            back = traffic.network[i] == 1
            ends = rows * network.cols + right if back else lower * network.cols + cols
            same = np.full(len(ends), 0, np.int64)
            single = topology.routes(same + traffic.source[i], ends, same + traffic.network[i])
            links = np.unique(single.path[single.path < topology.link_count])
            places = (rows[:, None] * network.cols + cols[None, :]).ravel()
            workers = places[letters[places] == "W"]
            # A rectangle without workers loads no sink.
            path = np.concatenate(
                [path[:1], links, topology.sink(workers, workers * 0 + traffic.network[i])]
            )
            count = 1 + len(links)
        paths.append(path)
        sinks.append(count)
    begin = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    return Routes(begin, begin[:-1] + np.array(sinks, np.int64), np.concatenate(paths))
