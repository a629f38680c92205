"""Beyond one machine: sources are encoded to shards for `ku import`; the vector index on Milvus."""
