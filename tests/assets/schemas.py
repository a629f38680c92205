"""A small knowledge base with every kind of row, and an encoder for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL.Image import Image

from ku_rag import KnowledgeBase, Relation, Unit
from tests.conftest import picture, write_records


class Hashed:
    """Vectors from hashes of contents: a base stored with them can be opened by every version."""

    dim, max_tokens, cross_modal, fingerprint = 8, 12, False, "tests/hashed:8"

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors([text.encode() for text in texts])

    def encode_images(self, images: Sequence[Image]) -> np.ndarray:
        return self._vectors([image.tobytes() for image in images])

    def encode_regions(
        self, image: Image, boxes: Sequence[tuple[int, int, int, int]]
    ) -> np.ndarray:
        return self.encode_images([image.crop(box) for box in boxes])

    def _vectors(self, contents: Sequence[bytes]) -> np.ndarray:
        rows = [np.frombuffer(hashlib.sha256(c).digest()[:8], np.uint8) for c in contents]
        vectors = np.array(rows, np.float32).reshape(len(contents), 8) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fill(kb: KnowledgeBase, data: Path) -> None:
    """Add every kind of row to a base: ingested, shared, added, joined, updated, related."""
    write_records(
        data / "units.jsonl",
        [
            {
                "id": "lighthouse",
                "name": "Green Lighthouse",
                "kind": "building",
                "aliases": ["Faro Verde"],
                "text": "The Green Lighthouse was built in 1871. It stands on Heron Rock. Its lamp "
                "is seen from thirty miles.",
                "images": [picture(data / "tower.png", 1, (24, 16)).name],
                "metadata": {"height": 41.5, "open": None},
                "relations": [
                    {"relation": "stands on", "target": "Heron Rock", "condition": "since 1871"},
                    {"relation": "lit by", "target": "Oil", "target_kind": "substance"},
                    {"relation": "kept by", "target": "Nobody Yet"},
                ],
            },
            {
                "id": "rock",
                "name": "Heron Rock",
                "text": "Heron Rock is granite. Seals rest below the Green Lighthouse.",
                "images": ["tower.png", picture(data / "rock.png", 2, (24, 16)).name],
                "tables": [
                    {
                        "name": "Birds",
                        "header": ["Bird", "Eats"],
                        "rows": [["Heron", {"text": "oil, never", "link": "can"}], [], ["Gull"]],
                    }
                ],
            },
            {"id": "can", "name": "Can", "match": False, "text": "A can holds oil."},
        ],
    )
    (data / "coast.md").write_text(
        "# Heron Rock\n\nHeron Rock is bare.\n\n# Tides\n\nThe tide reaches Heron Rock at noon.\n",
        encoding="utf-8",
    )
    kb.ingest(data / "units.jsonl")
    kb.ingest(data / "coast.md")
    kb.add(Unit("Heron Rock", texts=["Herons nest on Heron Rock."], images=[data / "rock.png"]))
    kb.add(
        Unit(
            "Seal",
            id="seal",
            kind="animal",
            texts=["Seals eat fish."],
            relations=[Relation("rests on", "rock", information="at low water")],
        )
    )
    kb.update("seal", aliases=["Phoca"], texts=["Seals eat fish and sleep on stones."])
    kb.add(Unit("Gone", id="gone", texts=["This will be deleted."]))
    kb.delete("gone")
