"""Public data sets by name: where they are published, what they must contain, and fetching them.

`locate` turns a name like ``step/qwen-b64`` into the path of a fetched file. Nothing but
`fetch_datasets` uses the network.
"""

from __future__ import annotations

from stepsim.data.fetch import fetch_datasets
from stepsim.data.folder import data_folder, is_fetched, locate, place
from stepsim.data.registry import Dataset, choose, datasets, in_known_group

__all__ = [
    "Dataset",
    "choose",
    "data_folder",
    "datasets",
    "fetch_datasets",
    "in_known_group",
    "is_fetched",
    "locate",
    "place",
]
