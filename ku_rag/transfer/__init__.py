"""Whole bases on the move: export and import as Parquet, snapshots, salvage."""
