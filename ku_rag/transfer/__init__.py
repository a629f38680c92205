"""Transfer of whole bases: Parquet export and import, snapshots, increments, salvage."""
