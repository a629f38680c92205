"""The store behind the classes for other frameworks; it needs none of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import ku_rag
from ku_rag import BadInput, KnowledgeBase, Unit
from ku_rag.integrations.chunk_store import ChunkStore, ForeignEncoder, TextDocument

FRAMEWORKS = {"langchain_core": "langchain", "haystack": "haystack", "llama_index": "llamaindex"}


def turned(texts):
    """A vector of three numbers for each text, by its length and first letter."""
    return [[len(text), ord(text[:1] or "a") - 96, 0.5] for text in texts]


@pytest.fixture
def store(tmp_path):
    chunk_store = ChunkStore.open(tmp_path / "kb", ForeignEncoder("turned", 3, turned))
    yield chunk_store
    chunk_store.kb.close()


def document(name, text, **metadata):
    return TextDocument(name, text, metadata)


def test_a_framework_is_imported_by_its_own_module_only():
    importing = {
        (name.partition(".")[0], path.stem)
        for path in Path(ku_rag.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
    }
    assert {pair for pair in importing if pair[0] in FRAMEWORKS} == set(FRAMEWORKS.items())


def test_vectors_of_any_length_are_scaled_to_length_one(store):
    store.write([document("a", "far"), document("b", "near")], [[0, 0, 9], [300, 4, 0]])
    hits = store.search(vector=[3, 0, 0])
    assert [(hit.id, hit.text) for hit in hits] == [("b", "near"), ("a", "far")]
    assert [hit.evidence.score for hit in hits] == pytest.approx([1, 0], abs=1e-3)
    with pytest.raises(BadInput, match="a vector has 2 numbers: the base has vectors of 3"):
        store.search(vector=[1, 2])
    with pytest.raises(BadInput, match="has length 0"):
        store.search(vector=[0, 0, 0])


@pytest.mark.parametrize("vector", [None, [0, 0, 0], np.zeros(3)], ids=["none", "zeros", "array"])
def test_a_text_without_a_vector_is_encoded_by_the_function(store, vector):
    store.write([document("a", "alpha"), document("b", "beta")], [vector, np.array([1, 0, 0])])
    assert store.search(vector=turned(["alpha"])[0], k=1)[0].id == "a"
    assert store.kb.encoder.encode_texts(["alpha"])[0] == pytest.approx(
        np.array([5, 1, 0.5]) / np.linalg.norm([5, 1, 0.5])
    )


def test_a_long_text_is_one_chunk_with_a_vector_and_several_without(store):
    text = "A sentence of six short words. " * 100
    store.write([document("a", text), document("b", text)], [[1, 2, 3], None])
    assert [store.kb.show(name).counts["chunks"] for name in "ab"] == [1, 3]
    assert [entry.text for entry in store.read("ab")] == [text, text]
    texts = {hit.id: hit.text for hit in store.search("sentence")}
    parts = sorted((id for id in texts if id.startswith("b#")), key=lambda id: int(id[2:]))
    assert "".join(texts[id] for id in parts) == texts["a"] == text


def test_what_is_written_replaces_what_has_its_id(store):
    documents = [document("a", "Old.", n=1), document("a", "Older."), document("b", "Other.")]
    assert store.write(documents, [None, [1, 0, 0], None]) == ["a", "b"]
    store.write([document("a", "New.", n=2)], [None])
    assert list(store.read(["b", "none", "a"])) == [
        document("b", "Other."),
        document("a", "New.", n=2),
    ]
    assert [hit.text for hit in store.search("old older new", k=9)] == ["New.", "Other."]
    assert store.kb.verify().ok


def test_names_are_no_ids(store):
    store.write([document("1", "First.", title="2"), document("2", "Second.")], [None, None])
    store.write(
        [document("3", "Third.", title="4"), document("5", "Fifth.", title="4")], [None] * 2
    )
    assert [entry.text for entry in store.read("245")] == ["Second.", "Fifth."]
    store.delete(["4", "none", "2", "2"])
    assert [unit.id for unit in store.kb.list()] == ["1", "3", "5"]
    assert store.search("Third.", k=1)[0].described["names"] == ["4"]


def test_texts_beside_units_are_found_with_their_ids(tmp_path):
    (tmp_path / "folder" / "Mango").mkdir(parents=True)
    (tmp_path / "folder" / "Mango" / "about.txt").write_text("It is sweet.", encoding="utf-8")
    (tmp_path / "folder" / "notes.txt").write_text("The Mango is not sour.", encoding="utf-8")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "folder")
        kb.add(Unit("Lime", id="lime", texts=("It is green.", "It is sour.")))
        hits = {hit.text: hit for hit in ChunkStore(kb).search("sweet sour green", k=9)}
        for text, number in (("It is green.", "lime"), ("It is sour.", "lime")):
            assert hits[text].id == f"{number}#{hits[text].evidence.chunk}"
        assert len({hit.id for hit in hits.values()}) == len(hits) == 4
        sweet = hits["It is sweet."]
        assert (sweet.id, sweet.described["unit_ids"]) == ("Mango", ["Mango"])
        note = hits["The Mango is not sour."].described
        assert (sweet.described["owners"], note["owners"]) == (["Mango"], ["notes"])
        assert sweet.described["source"].endswith("folder/Mango/about.txt")


def test_a_picture_in_a_base_of_a_foreign_model_is_found(fruit_base):
    with (
        KnowledgeBase.open(
            fruit_base.parent / "other", create=True, encoder=ForeignEncoder("turned", 3, turned)
        ) as kb,
        pytest.raises(BadInput, match="encodes texts"),
    ):
        kb.add(Unit("Mango", id="mango", images=(fruit_base / "Mango" / "photo.png",)))
    store = ChunkStore.open(fruit_base.parent / "new", ForeignEncoder("turned", 3, turned))
    store.kb.ingest(fruit_base)
    image = fruit_base / "Kiwi" / "photo.png"
    assert store.search("Where does it come from?", image, k=1)[0].id == "Kiwi"
    store.kb.close()
