"""The data of the demo: flags, scenes with a flag, and texts, drawn and written from facts."""
