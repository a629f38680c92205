"""The LlamaIndex retriever; LlamaIndex has no tests for others to run."""

from __future__ import annotations

import pytest
from llama_index.core.schema import MetadataMode, QueryBundle

from ku_rag.integrations.llamaindex import LlamaIndexRetriever

QUESTION = "Where does it come from?"


def test_a_node_says_whose_text_it_is(fruits):
    (found,) = LlamaIndexRetriever(fruits, k=1).retrieve("Where does the mango come from?")
    assert (found.node.node_id, found.text) == ("mango", "The Mango comes from Peru.")
    assert found.metadata == {
        "source": found.metadata["source"],
        "taste": "sweet",
        "owners": ["mango"],
        "unit_ids": ["mango"],
        "names": ["Mango"],
        "score": found.score,
        "evidence": "E1",
    }
    assert "names: ['Mango']" in found.node.get_content(MetadataMode.LLM)


@pytest.mark.parametrize("name", ["mango", "kiwi"])
async def test_a_picture_chooses_the_nodes(fruits, fruit_pictures, name):
    image, other = (
        str(fruit_pictures[name]),
        fruit_pictures[{"mango": "kiwi", "kiwi": "mango"}[name]],
    )
    asked = QueryBundle(QUESTION, image_path=image)
    found = [
        LlamaIndexRetriever(fruits, k=3, image=image).retrieve(QUESTION),
        LlamaIndexRetriever(fruits, k=3, image=other).retrieve(asked),
        await LlamaIndexRetriever(fruits, k=3).aretrieve(asked),
    ]
    assert [one[0].node.node_id for one in found] == [name] * 3
    assert [len(one) for one in found] == [3] * 3


def test_units_are_selected_by_metadata(fruits):
    sour = LlamaIndexRetriever(fruits, k=9, where="taste=sour").retrieve(QUESTION)
    assert {one.node.node_id for one in sour} == {"kiwi", "plum"}
