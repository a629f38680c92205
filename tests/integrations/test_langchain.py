"""LangChain's own tests of retrievers and vector stores, and tests of the remaining behaviour."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import ConfigurableField
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

from ku_rag import BadInput, Mismatch
from ku_rag.integrations.langchain import LangChainRetriever, LangChainVectorStore

QUESTION = "Where does it come from?"


class TestStandardRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def base(self, fruits):
        self.kb = fruits

    @property
    def retriever_constructor(self):
        return LangChainRetriever

    @property
    def retriever_constructor_params(self):
        return {"kb": self.kb}

    @property
    def retriever_query_example(self):
        return "Where does the mango come from?"


class TestStandardVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = LangChainVectorStore(self.get_embeddings(), tmp_path / "kb")
        yield store
        store.kb.close()


@pytest.fixture
def store(tmp_path):
    vector_store = LangChainVectorStore(DeterministicFakeEmbedding(size=6), tmp_path / "kb")
    yield vector_store
    vector_store.kb.close()


def test_a_document_says_whose_text_it_is(fruits):
    (document,) = LangChainRetriever(kb=fruits, k=1).invoke("Where does the mango come from?")
    assert document.page_content == "The Mango comes from Peru."
    score = document.metadata.pop("score")
    assert score > 0
    assert document.metadata == {
        "source": document.metadata["source"],
        "taste": "sweet",
        "owners": ["mango"],
        "unit_ids": ["mango"],
        "names": ["Mango"],
        "evidence": "E1",
    }
    assert document.metadata["source"].startswith("add:mango/")
    assert document.id == "mango"


@pytest.mark.parametrize("name", ["mango", "kiwi"])
async def test_a_picture_chooses_the_documents(fruits, fruit_pictures, name):
    image = fruit_pictures[name]
    plain = LangChainRetriever(kb=fruits, k=2)
    chain = plain.configurable_fields(image=ConfigurableField("image"))
    results = [
        LangChainRetriever(kb=fruits, image=image, k=2).invoke(QUESTION),
        plain.invoke(QUESTION, image=image),
        await plain.ainvoke(QUESTION, image=image),
        chain.invoke(QUESTION, config={"configurable": {"image": image}}),
        plain.invoke("", image=image),
    ]
    assert [documents[0].metadata["unit_ids"] for documents in results] == [[name]] * len(results)
    assert [len(documents) for documents in results] == [2] * len(results)


def test_all_chunks_are_ranked_where_as_many_are_asked_for(fruits, fruit_pictures):
    retriever = LangChainRetriever(kb=fruits, k=4)
    for question in (QUESTION, "unrelated", "?!"):
        for image in (None, *fruit_pictures.values()):
            documents = retriever.invoke(question, image=image)
            assert {document.id for document in documents} == {"mango", "kiwi", "fig", "plum"}
    assert retriever.batch([QUESTION] * 9) == [retriever.invoke(QUESTION)] * 9


def test_units_are_selected_by_metadata(fruits):
    retriever = LangChainRetriever(kb=fruits, k=9, where="taste=sour")
    assert {document.id for document in retriever.invoke(QUESTION)} == {"kiwi", "plum"}
    assert retriever.invoke(QUESTION, where="taste=salty") == []
    chosen = LangChainRetriever(kb=fruits, where=lambda metadata: metadata["taste"] == "sweet")
    assert {document.id for document in chosen.invoke(QUESTION)} == {"mango", "fig"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):
        retriever.invoke(QUESTION, top_k=3)


def test_exactly_k_documents_are_returned(store):
    texts = [f"Text number {n}." for n in range(250)]
    store.add_texts(texts)
    for k in (1, 99, 101, 250):
        assert len(store.similarity_search("Text", k)) == k
        assert len(LangChainRetriever(kb=store.kb, k=k).invoke("number 7")) == k
    assert len(LangChainRetriever(kb=store.kb, k=251).invoke("number 7")) == 250


def test_texts_and_metadata_come_back_exactly(store):
    texts = ["", " two\r\n\r\nparagraphs \t", "ﬁﬂ 漢字 🙂 " + "long. " * 50_000, "same", "same"]
    metadata = {"deep": {"list": [1, 2.5, None, True, "ä"]}, "title": "A", "empty": ""}
    ids = store.add_texts(texts, [metadata] * len(texts))
    documents = store.get_by_ids(ids)
    assert [document.page_content for document in documents] == texts
    assert [document.metadata for document in documents] == [metadata] * len(texts)
    nearest = store.similarity_search(texts[2], 1)
    assert nearest == [Document(page_content=texts[2], metadata=metadata, id=ids[2])]


def test_documents_are_filtered_by_metadata(store):
    store.add_texts(
        ["one", "two", "three"],
        [{"year": 1, "kind": "A"}, {"year": 2, "kind": "a"}, {"tags": ["x"]}],
        ids=["1", "2", "3"],
    )
    filters = {
        "fields": ({"year": 1}, {"1"}),
        "case": ({"kind": "a"}, {"2"}),
        "missing": ({"none": None}, set()),
        "condition": ("year>=1", {"1", "2"}),
        "function": (lambda metadata: "year" not in metadata, {"3"}),
        "list": ({"tags": ["x"]}, {"3"}),
        "nothing": (None, {"1", "2", "3"}),
    }
    for name, (chosen, expected) in filters.items():
        documents = store.similarity_search("one", 9, filter=chosen)
        assert {document.id for document in documents} == expected, name


def test_scores_are_cosines(store):
    store.add_texts(["one", "two"])
    scored = store.similarity_search_with_score("one", 2)
    assert [document.page_content for document, _ in scored] == ["one", "two"]
    assert scored[0][1] == 1
    assert -1 <= scored[1][1] < 1
    relevant = store.similarity_search_with_relevance_scores("one", 2)
    assert [score for _, score in relevant] == [(1 + score) / 2 for _, score in scored]


def test_a_store_is_opened_again_with_its_own_model_only(tmp_path):
    path, model = tmp_path / "kb", DeterministicFakeEmbedding(size=6)
    created = LangChainVectorStore.from_texts(["one"], model, ids=["1"], path=path)
    assert created.embeddings is model
    created.kb.close()
    again = LangChainVectorStore(model, path)
    assert [document.id for document in again.similarity_search("one")] == ["1"]
    again.kb.close()
    for reopen in (
        lambda: LangChainVectorStore(DeterministicFakeEmbedding(size=7), path),
        lambda: LangChainVectorStore(model, path, name="another"),
    ):
        with pytest.raises(Mismatch, match="was made with encoder foreign:Deterministic"):
            reopen()


def test_bad_input_stores_nothing(store):
    store.add_texts(["one"], ids=["1"])
    for texts, metadatas, ids, error in (
        (["a", "b"], [{}], None, ValueError),
        (["a", "b"], None, ["1"], ValueError),
        (["a", "b"], [{}, {"when": object()}], ["1", "2"], BadInput),
        (["a", "nul \0"], None, ["1", "2"], BadInput),
    ):
        with pytest.raises(error):
            store.add_texts(texts, metadatas, ids=ids)
    with pytest.raises(BadInput, match="name the documents to delete"):
        store.delete()
    assert [document.page_content for document in store.similarity_search("one")] == ["one"]
