"""Agents of a model that search a multimodal knowledge graph (MH-MMKG)."""
