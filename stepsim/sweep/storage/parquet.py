"""Parquet files that are written completely or not at all, with their digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.paths import local_path
from stepsim.sweep.storage.digests import Digest, Digests, digest_of
from stepsim.sweep.storage.disk import flush, replacing, writing


def write_tables(tables: Mapping[Path, pa.Table], digests: Digests) -> None:
    """Write files, each whole or not at all, in the given order.

    Their digests are on the disk before any of them has its name.

    Raises
    ------
    OutputError
        They cannot be written.
    """
    with replacing(*tables) as temporary:
        found: dict[Path, Digest] = {}
        for part, (path, table) in zip(temporary, tables.items(), strict=True):
            with writing(path):
                # With checksums, because a flipped bit may decode to another number: for
                # readers that ignore the digests, and for a disk that fails after the digest
                # was checked.
                pq.write_table(
                    table, local_path(part), compression="zstd", write_page_checksum=True
                )
                flush(part)
                found[path] = digest_of(part)
        digests.record(found)
