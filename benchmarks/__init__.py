"""Measurements: each module prints ratios of one run and writes its result under results/."""
