"""From evidence to an answer, a passage and a report."""
