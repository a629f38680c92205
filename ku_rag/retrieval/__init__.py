"""From a question to units and chunks."""
