"""Measures: how well what was found and answered agrees with what people found and answered."""
