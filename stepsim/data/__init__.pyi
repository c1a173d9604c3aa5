from stepsim.data.fetch import fetch_datasets as fetch_datasets
from stepsim.data.folder import (
    data_folder as data_folder,
    is_fetched as is_fetched,
    locate as locate,
)
from stepsim.data.registry import Dataset as Dataset, choose as choose, datasets as datasets

# isort: split
# for other rooms
from stepsim.data.folder import place as place
from stepsim.data.registry import in_known_group as in_known_group
