"""Named sets of settings, for `ku init --profile`."""

from __future__ import annotations

from ku_rag.errors import NotFound
from ku_rag.weights import store
from ku_rag.weights.catalogue import known

# The paper gives k = 3 (section 4.3) and leaves the thresholds of eq. 6 to its official code:
# cosine 0.19, boxes of at least 50 px, pixels outside a mask set to black.
_PUBLISHED: dict[str, object] = {
    "region_threshold": 0.19,
    "region_min_side": 50,
    "region_background": "mask",
    "k_units": 3,
    "k_chunks": 3,
}
_PROFILES: dict[str, dict[str, object]] = {
    "paper": {"encoder": "longclip:longclip-L", "segmenter": "yolo:yolov8x-seg", **_PUBLISHED},
    "fast": {"encoder": "longclip:longclip-B", "segmenter": "yolo:yolov8n-seg", **_PUBLISHED},
}


def profiles() -> dict[str, dict[str, object]]:
    """The settings of every profile by its name; its weights need not be here."""
    return {name: dict(settings) for name, settings in _PROFILES.items()}


def profile(name: str) -> dict[str, object]:
    """The settings of a profile whose weights are here.

    Raises:
        NotFound: there is no such profile, or weights that it needs are not here.
        Corrupt: what lies in the place of its weights is of another size.
    """
    if name not in _PROFILES:
        raise NotFound(f"there is no profile {name!r}; there are: {', '.join(_PROFILES)}")
    settings = profiles()[name]
    needed = [known(str(settings[role])) for role in ("encoder", "segmenter")]
    missing = [model for model in needed if store.located(model) is None]
    if missing:
        names = " ".join(model.name for model in missing)
        raise NotFound(
            f"the profile {name!r} needs weights that are not here: run `ku models pull {names}`, "
            f"or {', and '.join(store.by_hand(model) for model in missing)}"
        )
    for model in needed:
        store.find(model.name)
    return settings
