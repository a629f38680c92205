"""Benchmarks: each module prints the ratios of one run and writes its result to results/."""
