"""Evidence graphs, built by a model for each question (Query-Driven Multimodal GraphRAG)."""
