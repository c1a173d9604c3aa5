"""Public data sets by name: where they are published, their digests, and fetching them.

`locate` turns a name like ``step/qwen-b64`` into the path of a fetched file. Only
`fetch_datasets` uses the network.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
