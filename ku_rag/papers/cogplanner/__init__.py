"""Planning: rounds of query reformulation and search before an answer (CogPlanner)."""
