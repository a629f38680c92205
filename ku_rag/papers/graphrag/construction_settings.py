"""Settings of the construction of an evidence graph."""

from __future__ import annotations

from dataclasses import dataclass

from ku_rag.arguments import check, count, wrong

_RANGES = {"k": (1, 100), "passages": (1, 100), "tables": (0, 20), "t_max": (1, 10)}


@dataclass(frozen=True, slots=True)
class EvidenceSettings:
    """How an evidence graph is built. The paper does not publish k, thresholds and rounds.

    Args:
        k: Nodes that each path of the dual-path retrieval selects, 1 to 100.
        passages: Retrieved texts from which facts are extracted, 1 to 100.
        tables: Retrieved tables, 0 to 20.
        image_distance: Normalised edit distance, 0 to 1, below which the title of a picture names
            an entity.
        table_distance: The same for tables.
        t_max: Greatest number of judgements, 1 to 10.
        image_matching: Whether pictures are selected by descriptions in the question.
        visual_evidence: Whether questions are put to pictures.
        table_mining: Whether entities are taken from tables.
        pattern_updates: Whether the pattern is made anew where a graph is not enough (eq. 1), and
            facts are extracted with it.
        stop_unchanged: Whether a round that added nothing ends the construction; algorithm 1 goes
            on to `t_max`.

    Raises:
        BadInput: A value is out of its range.
    """

    k: int = 5
    passages: int = 10
    tables: int = 3
    image_distance: float = 0.25
    table_distance: float = 0.7
    t_max: int = 3
    image_matching: bool = True
    visual_evidence: bool = True
    table_mining: bool = True
    pattern_updates: bool = False
    stop_unchanged: bool = True

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, (least, most) in _RANGES.items():
            count(getattr(self, name), name, least=least, most=most)
        for name in ("image_distance", "table_distance"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value <= 1):
                raise wrong(value, name, "a number from 0 to 1")
        switches = ("image_matching", "visual_evidence", "table_mining")
        for name in (*switches, "pattern_updates", "stop_unchanged"):
            check(getattr(self, name), name, bool)
