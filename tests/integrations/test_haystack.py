"""Haystack's own tests of document stores, and tests of the remaining behaviour."""

from __future__ import annotations

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DocumentStoreBaseTests

from ku_rag import BadInput, Mismatch
from ku_rag.integrations.haystack import HaystackDocumentStore, HaystackRetriever


@pytest.fixture
def store(tmp_path):
    document_store = HaystackDocumentStore(str(tmp_path / "kb"), embedding_dim=3)
    yield document_store
    document_store.kb.close()


class TestStandardDocumentStore(DocumentStoreBaseTests):
    """Three overrides, as the class allows.

    - `document_store`: creates the store; it is abstract.
    - `test_write_documents`: the store defines the behaviour without a policy; it is abstract.
    - `assert_documents_are_equal`: documents are in the order of their ids, and without their
      embeddings, of which the store has no exact copy.
    """

    @pytest.fixture
    def document_store(self, tmp_path):
        created = HaystackDocumentStore(str(tmp_path / "kb"), embedding_dim=768)
        yield created
        created.kb.close()

    def test_write_documents(self, document_store):
        written = [Document(content="test doc")]
        assert document_store.write_documents(written) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(written)
        self.assert_documents_are_equal(document_store.filter_documents(), written)

    def assert_documents_are_equal(self, received, expected):
        expected = sorted(expected, key=lambda document: document.id)
        assert [document.to_dict() for document in received] == [
            document.to_dict() | {"embedding": None} for document in expected
        ]


DOCUMENTS = [
    Document(id="1", content="Mangoes are sweet.", meta={"year": 1990}, embedding=[1.0, 0, 0]),
    Document(id="2", content="Limes are sour.", meta={"year": 2020}, embedding=[3.0, 4.0, 0]),
    Document(id="3", content="Figs are sweet.", meta={"source": "book"}, embedding=[-1.0, 0, 0]),
    Document(id="4", content="Plums have stones."),
]  # fmt: skip


def run(retriever, **options):
    return [(document.id, document.score) for document in retriever.run(**options)["documents"]]


def test_documents_are_found_by_embedding(store):
    store.write_documents(DOCUMENTS)
    retriever = HaystackRetriever(store, top_k=4)
    every = run(retriever, query_embedding=[9.0, 0.0, 0.0])
    assert [doc_id for doc_id, _ in every] == ["1", "2", "4", "3"]
    assert [score for _, score in every] == pytest.approx([1, 0.6, 0, -1], abs=1e-3)
    assert run(retriever, query_embedding=[9.0, 0.0, 0.0], query="Figs", top_k=1) == every[:1]
    with pytest.raises(BadInput, match="has 2 numbers"):
        retriever.run(query_embedding=[1.0, 0.0])


def test_documents_are_found_by_words(store):
    store.write_documents(DOCUMENTS)
    (best,) = HaystackRetriever(store, top_k=1).run(query="stones of plums")["documents"]
    assert (best.id, best.content, best.meta["evidence"]) == ("4", "Plums have stones.", "E1")
    (book,) = HaystackRetriever(store, top_k=1).run(query="figs")["documents"]
    assert book.meta == {
        "source": "book",
        "owners": ["3"],
        "unit_ids": ["3"],
        "names": ["3"],
        "score": book.score,
        "evidence": "E1",
    }


def test_a_picture_chooses_the_documents(fruits, fruit_pictures):
    store = HaystackDocumentStore(str(fruits.path))
    for name, image in fruit_pictures.items():
        options = {"query": "Where does it come from?", "image": str(image)}
        assert run(HaystackRetriever(store, top_k=1), **options)[0][0] == name
        retriever = HaystackRetriever(store, top_k=2, image=options.pop("image"))
        assert len(run(retriever, **options)) == 2
        assert run(retriever, **options)[0][0] == name
    assert store.filter_documents()[1].content == "The Kiwi comes from Italy."
    store.kb.close()


def test_a_search_is_filtered_by_meta(store):
    store.write_documents(DOCUMENTS)
    late = {"field": "meta.year", "operator": ">", "value": 2000}
    retriever = HaystackRetriever(store, filters=late)
    assert [doc_id for doc_id, _ in run(retriever, query="sweet")] == ["2"]
    either = {"operator": "OR", "conditions": [late, {**late, "operator": "<"}]}
    options = {"query_embedding": [1.0, 0.0, 0.0], "filters": either}
    assert [doc_id for doc_id, _ in run(retriever, **options)] == ["1", "2"]
    invalid = {"operator": "AND", "conditions": [{**late, "field": "content"}]}
    for search in (
        store.filter_documents,
        lambda conditions: retriever.run(query="sweet", filters=conditions),
    ):
        with pytest.raises(FilterError, match="'content' is no field of the meta"):
            search(invalid)
    with pytest.raises(FilterError):
        retriever.run(query="sweet", filters={"field": "meta.year", "operator": "~", "value": 1})


def test_a_pipeline_is_saved_and_loaded(store):
    store.write_documents(DOCUMENTS)
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(store, top_k=2))
    trusted = ["ku_rag.integrations.haystack"]
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=trusted)
    inputs = {"retriever": {"query": "sour limes"}}
    documents = [runner.run(inputs)["retriever"]["documents"] for runner in (pipeline, loaded)]
    assert documents[0] == documents[1]
    assert documents[0][0].id == "2"
    loaded.get_component("retriever")._store.kb.close()


def test_a_document_that_exists_is_left_alone_unless_told_otherwise(store):
    store.write_documents(DOCUMENTS[:1])
    changed = [Document(id="1", content="New."), *DOCUMENTS[1:2]]
    with pytest.raises(DuplicateDocumentError, match="1"):
        store.write_documents(changed)
    assert store.count_documents() == 1
    assert store.write_documents(changed, DuplicatePolicy.SKIP) == 1
    assert [document.content for document in store.filter_documents()] == [
        document.content for document in DOCUMENTS[:2]
    ]
    assert store.write_documents(changed, DuplicatePolicy.OVERWRITE) == 2
    assert store.filter_documents()[0].content == "New."


@pytest.mark.parametrize(
    "wrong",
    [
        Document(id="x"),
        Document(id="x", content="A text.", blob=ByteStream(b"data")),
        Document(id="x", content="A text.", embedding=[1.0]),
        Document(id="x", content="A text.", meta={"when": object()}),
    ],
    ids=["no text", "blob", "length", "meta"],
)
def test_what_cannot_be_stored_is_refused(store, wrong):
    with pytest.raises((ValueError, BadInput)):
        store.write_documents([*DOCUMENTS[:1], wrong])
    assert store.count_documents() == 0


def test_a_store_is_opened_again_with_its_own_model_only(store):
    path = str(store.kb.path)
    HaystackDocumentStore(path, embedding_dim=3).kb.close()
    for options in ({"embedding_dim": 4}, {"embedding_dim": 3, "model": "another"}, {}):
        with pytest.raises(Mismatch, match="was made with encoder foreign:haystack:3"):
            HaystackDocumentStore(path, **options)
