"""Weights of known models: which there are, where they lie, how they get here."""

from ku_rag.weights.catalogue import File, Model, known, models
from ku_rag.weights.profiles import profile, profiles
from ku_rag.weights.pulling import Checked, pull, verify
from ku_rag.weights.store import find

__all__ = [
    "Checked",
    "File",
    "Model",
    "find",
    "known",
    "models",
    "profile",
    "profiles",
    "pull",
    "verify",
]
