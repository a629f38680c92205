"""Reading: a question becomes a query of facts, and the facts become an answer."""
