"""The models of a knowledge base, each made at its first use."""

from __future__ import annotations

from functools import partial
from threading import RLock

from ku_rag import manifest
from ku_rag.encoders import load_encoder, load_side, sides
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.deferred import Deferred
from ku_rag.encoders.pair import Paired, side
from ku_rag.mllm import load_mllm
from ku_rag.mllm.base import MLLM
from ku_rag.regions import default_segmenter, load_segmenter
from ku_rag.regions.base import Segmenter
from ku_rag.settings import Settings
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import KINDS


class Models:
    """The encoder, the segmenter and the multimodal model of an open base; safe for many threads.

    Args:
        settings: name the models that are not given.
        encoder: the base's own.
        segmenter: proposes regions; None makes the one that the settings name.
        mllm: answers; None makes the one that the settings name, if they name one.
    """

    def __init__(
        self, settings: Settings, encoder: Encoder, segmenter: Segmenter | None, mllm: MLLM | None
    ) -> None:
        self.encoder = encoder
        self._settings = settings
        self._given = segmenter is not None
        self._segmenter, self._mllm = segmenter, mllm
        self._loading = RLock()

    def change_encoder(self, encoder: Encoder) -> None:
        """Use another encoder from now on, and the default segmenter that suits it."""
        with self._loading:
            if encoder is not self.encoder and not self._given:
                self._segmenter = None
            self.encoder = encoder

    @property
    def segmenter(self) -> Segmenter:
        """The segmenter; made at its first use."""
        with self._loading:
            if self._segmenter is None:
                settings = self._settings
                spec = settings.segmenter or default_segmenter(side(self.encoder, "image"))
                self._segmenter = load_segmenter(
                    spec, device=settings.device, min_side=settings.region_min_side
                )
            return self._segmenter

    @property
    def mllm(self) -> MLLM | None:
        """The multimodal model that answers, if there is one; made at its first use."""
        with self._loading:
            if self._mllm is None:
                self._mllm = load_mllm(self._settings)
            return self._mllm


def encoder_of(layout: Layout, settings: Settings, *, as_made: bool) -> tuple[Encoder, str]:
    """The encoder of a base, and its spec with absolute paths.

    That is what the settings name; where they name none, what the base was made with, and for a
    new base the embedded one. What the base was made with is loaded when something is encoded.

    Args:
        layout: where the base is, or will be.
        settings: may name the encoder.
        as_made: take the one that the base was made with, whatever they name.

    Raises:
        NotFound: there is no such encoder, or its weights are not here.
        BadInput: its weights are not what they should be.
        MissingExtra: what it needs is not installed.
    """
    made_with = manifest.made_with(layout.database)
    own = made_with["spec"] if made_with else None
    spec = "+".join(sides(settings.encoder or own or "embedded"))
    if made_with is None or not (as_made or own == spec != "embedded"):
        return load_named(spec, settings)
    spec = own or ""
    known = [made_with["sides"][kind] for kind in KINDS]
    parts = sides(spec) if spec else list(dict.fromkeys(fingerprint for fingerprint, _ in known))
    deferred = [
        Deferred(
            part,
            whole=spec or part,
            fingerprint=fingerprint,
            dim=dim,
            load=partial(load_side, part, device=settings.device, batch_size=settings.batch_size),
        )
        for part, (fingerprint, dim) in zip(parts, known, strict=False)
    ]
    return (deferred[0] if len(deferred) == 1 else Paired(*deferred)), spec


def load_named(spec: str, settings: Settings) -> tuple[Encoder, str]:
    """Make an encoder as the settings have it; returns its spec with absolute paths as well."""
    whole = "+".join(sides(spec))
    made = load_encoder(whole, device=settings.device, batch_size=settings.batch_size)
    return made, whole
