"""Facts that a model reads from texts."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import BudgetSpent, ModelFailed, NotFound
from tests.conftest import connect

TEXT = (
    "The Harbour Crane was drawn by Ada Winter. It lifts 13 tons,\nand it stood idle from 1984. "
    "Next to it is the Old Mill."
)
DESIGNER = {
    "unit": "Harbour Crane",
    "label": "designer",
    "value": "Ada Winter",
    "sentence": "The Harbour Crane was drawn by Ada Winter.",
}
LIFTS = {
    "unit": "harbour crane",
    "label": "lifts:",
    "value": "13 tons",
    "sentence": "It lifts 13 tons, and it stood idle from 1984.",
}
CRANE = Unit("Harbour Crane", id="crane", texts=(TEXT,), metadata={"colour": "red"})
MILL = Unit("Old Mill", id="mill", texts=("It burned down.",))


def replying(facts):
    """A model that returns the facts for every text that names Ada Winter."""
    return ScriptedMLLM(
        lambda request: {
            "facts": [fact for fact in facts if "Ada Winter" in request.messages[-1].text]
        }
    )


def open_base(tmp_path, mllm):
    return KnowledgeBase.open(tmp_path / "kb", mllm=mllm, create=True)


def extracted(kb, unit):
    facts = [fact for fact in kb.facts(unit) if fact.origin.startswith("extracted by")]
    return {(fact.label, fact.value): fact for fact in facts}


@pytest.fixture
def kb(tmp_path):
    with open_base(tmp_path, replying([DESIGNER, LIFTS])) as base:
        base.add(CRANE)
        base.add(MILL)
        yield base


def test_facts_are_stored_with_the_sentence_that_states_them_and_answer(kb):
    report = kb.extract()
    assert (report.chunks, report.facts, report.dropped, report.left_out) == (2, 2, {}, [])
    fact = extracted(kb, "crane")["lifts", "13 tons"]
    assert (fact.origin, fact.number, fact.measure) == ("extracted by model", 13.0, "mass")
    assert (
        kb.show("crane").texts[0][slice(*fact.span)]
        == "It lifts 13 tons,\nand it stood idle from 1984."
    )
    assert kb.verify().ok
    path = kb.path
    kb.close()
    with KnowledgeBase.open(path) as base:
        assert base.query(None, "Who is the designer of the Harbour Crane?").answer == "Ada Winter"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value": "3 tons"}, "the value is not in the sentence"),
        ({"value": "Ada Summer"}, "the value is not in the sentence"),
        ({"sentence": "Ada Winter drew it."}, "the sentence is not in the text"),
        ({"unit": "Red Crane"}, "it names no unit of the text"),
        ({"unit": ""}, "it names no unit of the text"),
        ({"label": " : "}, "label or value is empty or too long"),
        ({"value": "x" * 400}, "label or value is empty or too long"),
        ({"value": " "}, "the value is not in the sentence"),
        ({"value": "Harbour crane"}, "the value is the unit or the label"),
        ({"label": "13 tons"}, "the value is the unit or the label"),
        ({"label": "It lifts 13 tons, and it stood idle from 1984"}, "the label is the sentence"),
    ],
)
def test_what_the_text_does_not_state_is_dropped_and_counted(tmp_path, changed, reason):
    with open_base(tmp_path, replying([LIFTS | changed, DESIGNER])) as kb:
        kb.add(CRANE)
        report = kb.extract()
        assert (report.facts, report.dropped) == (1, {reason: 1})
        assert extracted(kb, "crane").keys() == {("designer", "Ada Winter")}


def test_a_value_in_a_script_without_spaces_is_found(tmp_path):
    text = "首都は東京です。Ada Winter was there."
    stated = {"unit": "日本", "label": "首都", "value": "東京", "sentence": "首都は東京です。"}
    with open_base(tmp_path, replying([stated])) as kb:
        kb.add(Unit("日本", id="jp", texts=(text,)))
        assert kb.extract().facts == 1


def test_a_unit_that_the_text_names_has_its_own_facts(tmp_path):
    stated = {
        "unit": "Old Mill",
        "label": "next to",
        "value": "Next to it",
        "sentence": "Next to it is the Old Mill.",
    }
    with open_base(tmp_path, replying([stated])) as kb:
        kb.add(MILL)
        kb.add(CRANE)
        assert kb.extract().facts == 1
        assert extracted(kb, "mill").keys() == {("next to", "Next to it")}


def test_filters_read_extracted_facts_only_when_asked_for_any_origin(kb):
    kb.extract()
    assert [unit.id for unit in kb.list(where="any:designer=Ada Winter")] == ["crane"]
    assert list(kb.list(where="designer=Ada Winter")) == []


def test_each_chunk_is_read_once_and_what_fails_is_tried_again(tmp_path):
    broken = ScriptedMLLM(
        lambda request: "no object" if "burned" in request.messages[-1].text else {"facts": [LIFTS]}
    )
    with open_base(tmp_path, broken) as kb:
        kb.add(CRANE)
        kb.add(MILL)
        report = kb.extract()
        assert (report.chunks, report.facts, len(report.left_out)) == (1, 1, 1)
        assert report.left_out[0].item.startswith("chunk ")
        broken.requests.clear()
        assert kb.extract().chunks == 0
        assert len(broken.requests) == 1
    good = replying([LIFTS])
    with open_base(tmp_path, good) as kb:
        assert kb.extract(dry_run=True).chunks == 1
        kb.add(Unit("Lock", id="lock", texts=("Ada Winter built it.",)))
        assert kb.extract(dry_run=True).usage["replies"] == 2
        assert good.requests == []
        assert kb.extract().chunks == 2
        assert kb.extract().chunks == 0


def test_the_end_of_the_budget_leaves_the_rest_for_the_next_run(tmp_path):
    def reply(request):
        raise BudgetSpent("the budget is spent")

    with open_base(tmp_path, ScriptedMLLM(reply)) as kb:
        kb.add(CRANE)
        kb.add(MILL)
        report = kb.extract()
        assert report.chunks == 0
        assert [item.reason for item in report.left_out] == ["the budget is spent"]
    with open_base(tmp_path, replying([LIFTS])) as kb:
        assert kb.extract().chunks == 2


def test_a_failing_model_changes_nothing(tmp_path):
    def reply(request):
        raise ModelFailed("no reply")

    with open_base(tmp_path, ScriptedMLLM(reply)) as kb:
        kb.add(CRANE)
        with pytest.raises(ModelFailed, match="no reply"):
            kb.extract()
        assert extracted(kb, "crane") == {}
        assert kb.extract(dry_run=True).chunks == 1


def test_without_a_model_nothing_can_be_extracted(tmp_path):
    with open_base(tmp_path, None) as kb, pytest.raises(NotFound, match="--mllm"):
        kb.extract()


def test_facts_go_with_their_text_and_stay_when_the_unit_is_renamed(kb):
    kb.extract()
    kb.update("crane", name="Dock Crane")
    assert len(extracted(kb, "crane")) == 2
    kb.update("crane", texts=("It is a crane.",))
    assert extracted(kb, "crane") == {}
    assert kb.verify().ok


def test_removal_deletes_what_a_model_has_read_and_reads_it_anew_later(kb):
    kb.extract()
    assert kb.remove_extracted("model") == 2
    assert extracted(kb, "crane") == {}
    assert kb.extract().facts == 2


@pytest.mark.parametrize("salvage", [False, True])
def test_export_salvage_and_import_keep_extracted_facts(kb, tmp_path, salvage):
    kb.extract()
    if salvage:
        KnowledgeBase.salvage(kb.path, tmp_path / "out")
    else:
        kb.export(tmp_path / "out")
    with KnowledgeBase.open(tmp_path / "copy", create=True) as copy:
        assert copy.import_(tmp_path / "out").quarantined == []
        assert extracted(copy, "crane").keys() == extracted(kb, "crane").keys()
        assert copy.verify().ok
        again = copy.import_(tmp_path / "out")
        assert again.quarantined == []
        assert len(extracted(copy, "crane")) == 2


def test_verify_finds_a_fact_that_its_text_does_not_state(kb):
    kb.extract()
    kb.close()
    file = connect(kb.path / "ku.sqlite")
    file.execute("UPDATE facts SET value = 'Ada Summer' WHERE value = 'Ada Winter'")
    file.close()
    with KnowledgeBase.open(kb.path) as base:
        assert any("Ada Summer" in problem for problem in base.verify().problems)
