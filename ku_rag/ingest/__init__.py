"""From files to knowledge units: sources, chunking, assembly, pipeline."""
