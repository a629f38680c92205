"""Weights of known models: catalogue, location, download and verification."""

from ku_rag.weights.catalogue import File, Model, known, models
from ku_rag.weights.files import WeightsCheck, find, pull, verify
from ku_rag.weights.profiles import profile, profiles

__all__ = [
    "File",
    "Model",
    "WeightsCheck",
    "find",
    "known",
    "models",
    "profile",
    "profiles",
    "pull",
    "verify",
]
