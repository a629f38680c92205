"""The LlamaIndex retriever; LlamaIndex offers no tests for implementations."""

from __future__ import annotations

import pytest
from llama_index.core.schema import MetadataMode, QueryBundle

from ku_rag.integrations.llamaindex import LlamaIndexRetriever

QUESTION = "Where does it come from?"


def test_a_node_says_whose_text_it_is(fruits):
    (hit,) = LlamaIndexRetriever(fruits, k=1).retrieve("Where does the mango come from?")
    assert (hit.node.node_id, hit.text) == ("mango", "The Mango comes from Peru.")
    assert hit.metadata == {
        "source": hit.metadata["source"],
        "taste": "sweet",
        "owners": ["mango"],
        "unit_ids": ["mango"],
        "names": ["Mango"],
        "score": hit.score,
        "evidence": "E1",
    }
    assert "names: ['Mango']" in hit.node.get_content(MetadataMode.LLM)


@pytest.mark.parametrize("name", ["mango", "kiwi"])
async def test_a_picture_chooses_the_nodes(fruits, fruit_pictures, name):
    image, second_image = (
        str(fruit_pictures[name]),
        fruit_pictures[{"mango": "kiwi", "kiwi": "mango"}[name]],
    )
    bundle = QueryBundle(QUESTION, image_path=image)
    results = [
        LlamaIndexRetriever(fruits, k=3, image=image).retrieve(QUESTION),
        LlamaIndexRetriever(fruits, k=3, image=second_image).retrieve(bundle),
        await LlamaIndexRetriever(fruits, k=3).aretrieve(bundle),
    ]
    assert [nodes[0].node.node_id for nodes in results] == [name] * 3
    assert [len(nodes) for nodes in results] == [3] * 3


def test_units_are_selected_by_metadata(fruits):
    sour = LlamaIndexRetriever(fruits, k=9, where="taste=sour").retrieve(QUESTION)
    assert {hit.node.node_id for hit in sour} == {"kiwi", "plum"}
