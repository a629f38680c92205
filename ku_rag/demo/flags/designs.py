"""All designs in one table."""

from __future__ import annotations

from ku_rag.demo.flags.crosses import CROSSES
from ku_rag.demo.flags.emblems import EMBLEMS
from ku_rag.demo.flags.stripes import STRIPES, Design

DESIGNS: dict[str, Design] = STRIPES | CROSSES | EMBLEMS
"""Country id → design."""
