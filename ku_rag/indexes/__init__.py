"""Lookups and caches over the store: vectors, keywords, unit-chunk lists."""
