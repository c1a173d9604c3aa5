"""The folder of a sweep: chunks, tables, digests."""
