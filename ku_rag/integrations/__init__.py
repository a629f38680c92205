"""Other frameworks' retrievers and stores; each module needs the extra of its name."""
