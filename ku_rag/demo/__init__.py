"""The flags knowledge base, drawn and written from facts on demand."""
