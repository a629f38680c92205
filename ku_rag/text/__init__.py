"""Words: tokens, sentences, stems, and what questions ask for. No other room is needed."""
