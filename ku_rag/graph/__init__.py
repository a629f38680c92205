"""The multimodal knowledge graph: what it is made from, and how it is searched (MH-MMKG)."""
