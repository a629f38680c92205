"""ku-rag beside other systems that hold vectors and texts."""
