from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.regions.crops import crop
from ku_rag.retrieval.image_matching import match_regions, one_blas_thread
from ku_rag.types import Region
from tests.assets.shapes import alone, random_look, scene

LOOKS = [random_look(np.random.default_rng(seed)) for seed in range(40)]


@pytest.fixture(scope="module")
def stored():
    return EmbeddedEncoder().encode_images([alone(look) for look in LOOKS])


def searching(stored):
    def search(vectors, k):
        cosines = vectors @ stored.T
        rows = np.argsort(-cosines, axis=1)[:, :k].astype(np.int64)
        short = k - rows.shape[1]
        best = np.take_along_axis(cosines, rows, axis=1)
        return (
            np.pad(rows, ((0, 0), (0, max(short, 0))), constant_values=-1),
            np.pad(best, ((0, 0), (0, max(short, 0))), constant_values=-1),
        )

    return search


def own(rows):
    return {row: frozenset([row]) for row in rows}


def match(image, regions, stored, *, background="mask", owners=own):
    vectors = EmbeddedEncoder().encode_images(
        [crop(image, region, background) for region in regions]
    )
    return match_regions(regions, vectors, searching(stored), owners)


def scene_with_regions(seed, count=3):
    image, drawn = scene(np.random.default_rng(seed), (320, 240), LOOKS[:count], (0.3, 0.5))
    regions = []
    for shape in drawn:
        x0, y0, x1, y1 = shape.box
        regions.append(Region(shape.box, "yolo", mask=shape.mask[y0:y1, x0:x1]))
    return image, regions, [LOOKS.index(shape.look) for shape in drawn]


def test_things_are_found_where_they_are(stored):
    right = total = 0
    for seed in range(15):
        image, regions, stored_rows = scene_with_regions(seed)
        hits = match(image, [Region((0, 0, 320, 240), "whole"), *regions], stored)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len({hit.image_row for hit in hits}) == len(hits) >= 24
        places = {hit.image_row: hit.region.box for hit in hits[: len(stored_rows)]}
        total += len(stored_rows)
        right += sum(
            places.get(row) == region.box for row, region in zip(stored_rows, regions, strict=True)
        )
    assert right / total > 0.8


def test_the_similarity_is_the_cosine_and_its_lead(stored):
    image, regions, _ = scene_with_regions(3)
    for background in ("keep", "mask"):
        part = crop(image, regions[0], background)
        cosines = EmbeddedEncoder().encode_images([part])[0] @ stored.T
        (hit, *_) = match(image, regions[:1], stored, background=background)
        first, second = np.sort(cosines)[::-1][:2]
        assert hit.image_row == int(cosines.argmax())
        assert hit.cosine == pytest.approx(first, abs=1e-4)
        assert hit.similarity == pytest.approx(2 * first - second, abs=2e-4)
        assert hit.region == Region(regions[0].box, "yolo", hit.similarity)


def test_pictures_of_one_unit_do_not_compete(stored):
    image, regions, stored_rows = scene_with_regions(3)
    few = stored[[stored_rows[0], stored_rows[0], 20]]

    def matches(unit):
        def owners(rows):
            return {row: frozenset([unit(row)]) for row in rows}

        return match(image, regions[:1], few, owners=owners)

    apart, together, only = (matches(unit) for unit in (int, lambda row: row // 2, lambda row: 7))
    assert {hit.image_row for hit in apart} == {0, 1, 2}
    assert apart[0].similarity == apart[0].cosine
    assert together[0].similarity > together[0].cosine
    assert all(hit.similarity == hit.cosine for hit in only)


def test_without_stored_pictures_nothing_is_found(stored):
    image, regions, _ = scene_with_regions(3)
    assert match(image, regions, stored[:0]) == []


def counts() -> list[int]:
    """Thread counts of the BLAS libraries that have one count for the whole process."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library.get("threading_layer") == "pthreads"
    ]


def test_the_number_of_threads_is_restored() -> None:
    before = counts()
    with one_blas_thread():
        assert set(counts()) <= {1}
    assert counts() == before
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert counts() == before


def test_a_second_user_waits_until_the_first_has_left() -> None:
    before, entered = counts(), threading.Event()

    def use() -> None:
        with one_blas_thread():
            entered.set()

    user = threading.Thread(target=use)
    with one_blas_thread():
        user.start()
        assert not entered.wait(0.1)
    user.join(10)
    assert entered.is_set()
    assert counts() == before
