"""KU-RAG as published: retrieval by cosines, and the correction of a draft by pages."""
