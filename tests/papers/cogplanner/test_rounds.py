"""Plans by a scripted model: the worked cases of the CogPlanner paper, and bad planners."""

import json
import threading
from dataclasses import replace

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, RecordedMLLM, ScriptedMLLM
from ku_rag.errors import BadInput, NotFound
from ku_rag.papers.cogplanner.mllm_planner import MLLMPlanner
from ku_rag.papers.cogplanner.plan import Hit, Plan, PlannedSearch, PlanSettings, Round
from ku_rag.papers.cogplanner.planner import PlanState
from ku_rag.papers.cogplanner.searchers import SearcherResult

MODELLINGS = pytest.mark.parametrize("modelling", ["parallel", "sequential"])
QUESTION = "How much more than this game did Black Myth Wukong sell?"
SUB_QUERIES = ["How many copies did Astro Bot sell?", "How many copies did Black Myth Wukong sell?"]


def lines_of(request):
    """The lines of data in a request, without the first and last one."""
    text = request.messages[-1].text
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def round_of(request):
    return sum("round" in line for line in lines_of(request))


def planner(*rounds, answer="18.5 million"):
    """A model that plays rounds of (queries, clear, action), and then answers."""

    def reply(request):
        fields = request.schema["properties"] if request.schema else {}
        if "queries" in fields or "action" in fields:
            queries, clear, action = rounds[min(round_of(request), len(rounds) - 1)]
            if "queries" in fields:
                return {"reason": "Needed.", "queries": queries, "clear": clear}
            return {"reason": "Missing.", "action": action}
        if fields:
            return {"reason": "", "citations": ["E1"], "changed": True, "answer": answer}
        return "A draft"

    return ScriptedMLLM(reply)


def open_with(games, mllm):
    return KnowledgeBase.open(games.path, read_only=True, mllm=mllm)


def steps(plan):
    return [(round_.action, *round_.queries) for round_ in plan.rounds]


@MODELLINGS
def test_figure_1_refines_by_picture_then_decomposes_into_two_text_searches(
    games, astro_bot, modelling
):
    refined = "How much more than Astro Bot did Black Myth Wukong sell?"
    mllm = planner(
        ([refined], False, "image"), (SUB_QUERIES, True, "text"), (SUB_QUERIES, True, "none")
    )
    with open_with(games, mllm) as kb:
        answer = kb.query(astro_bot, QUESTION, plan=modelling)
    plan = answer.plan
    assert steps(plan) == [
        ("image", refined), ("text", *SUB_QUERIES), ("none", *SUB_QUERIES)
    ]  # fmt: skip
    assert plan.stopped == "the planner chose no further search"
    assert [search.query for search in plan.rounds[1].searches] == SUB_QUERIES
    first, second = (search.hits[0].text for search in plan.rounds[1].searches)
    assert "1.5 million" in first
    assert "20 million" in second
    assert {"Astro Bot", "Black Myth Wukong"} <= {chunk.origin for chunk in answer.chunks}
    assert answer.answer == "18.5 million"
    assert answer.region is not None
    last = mllm.requests[-1].messages[-1].text
    assert QUESTION in last
    assert all(query in last for query in SUB_QUERIES)
    # The action is chosen for the reformulated queries, or beside the reformulation (eq. 7, 8).
    chosen = [
        request
        for request in mllm.requests
        if request.schema and "action" in request.schema["properties"]
    ]
    queries = [line["query"] for line in lines_of(chosen[0]) if "query" in line]
    assert queries == ([refined] if modelling == "sequential" else [QUESTION])


@MODELLINGS
def test_figure_2_takes_three_rounds(games, luigi, modelling):
    mllm = planner(
        (["Where was the man in the picture arrested?"], False, "image"),
        (["Where was Luigi arrested?"], False, "text"),
        (["In which state is Altoona?"], True, "text"),
        answer="Pennsylvania",
    )
    with open_with(games, mllm) as kb:
        answer = kb.query(luigi, "In which state was he arrested?", plan=modelling)
    assert [round_.action for round_ in answer.plan.rounds] == ["image", "text", "text"]
    assert answer.plan.stopped == "the limit rounds=3"
    assert "Altoona is a city in Pennsylvania." in [chunk.text for chunk in answer.chunks]
    assert len({chunk.chunk for chunk in answer.chunks}) == len(answer.chunks)
    # Each decision sees the evidence of the round before, D (eq. 7).
    third = [request for request in mllm.requests if round_of(request) == 2 and request.schema]
    texts = [line["text"] for line in lines_of(third[0]) if "text" in line]
    assert any("arrested in Altoona" in text for text in texts)


@MODELLINGS
def test_a_document_round_trips_and_runs_again(games, astro_bot, modelling):
    mllm = planner(([SUB_QUERIES[0]], False, "image"), (SUB_QUERIES, True, "text"))
    with open_with(games, mllm) as kb:
        plan = kb.plan(astro_bot, QUESTION, modelling)
        document = json.loads(json.dumps(plan.to_dict()))
        assert Plan.from_dict(document) == plan
        calls = len(mllm.requests)
        again = kb.plan(astro_bot, QUESTION, plan)
        assert len(mllm.requests) == calls
    assert steps(again) == steps(plan)
    assert again.planner == "document"
    hits = [[search.hits for search in round_.searches] for round_ in plan.rounds]
    assert [[search.hits for search in round_.searches] for round_ in again.rounds] == hits


def test_a_document_carries_out_every_round(games):
    rounds = [
        {"queries": ["What is it?"], "action": "none", "clear": False},
        {"queries": SUB_QUERIES, "action": "text"},
        {"queries": SUB_QUERIES[1:], "action": "text"},
        {"queries": ["Altoona"], "action": "text"},
    ]
    plan = Plan.from_dict({"question": QUESTION, "rounds": rounds})
    results = games.plan(None, QUESTION, plan).rounds
    assert [round_.action for round_ in results] == ["none", "text", "none", "text"]
    assert results[2].notes == ("this was searched before",)
    assert games.plan(None, QUESTION, plan).stopped == "the document has no further round"


def test_an_edited_document_carries_out_its_decisions(games, astro_bot):
    plan = games.plan(astro_bot, QUESTION)
    document = plan.to_dict()
    document["rounds"] = [{"queries": ["How many copies did Astro Bot sell?"], "action": "text"}]
    answer = games.query(astro_bot, QUESTION, plan=Plan.from_dict(document))
    assert steps(answer.plan) == [("text", SUB_QUERIES[0])]
    with pytest.raises(BadInput, match="the plan is for the question"):
        games.plan(astro_bot, "What is it?", plan)
    with pytest.raises(BadInput, match="the plan is for the picture"):
        games.plan(astro_bot.with_name("Luigi.png"), QUESTION, plan)


def test_the_last_query_is_answered_if_it_asks_for_the_same(games):
    rounds = [{"queries": ["How many copies did Astro Bot sell?"], "action": "graph"}]
    question = "How many copies did the game of 2024 sell?"
    plan = Plan.from_dict({"question": question, "rounds": rounds})
    answer = games.query(None, question, plan=plan)
    assert answer.answer == "1.5 million"
    assert {*answer.citations} <= {item.label for item in (*answer.chunks, *answer.paths)}
    second = replace(plan, question="Who directed the game of 2024?")
    assert games.query(None, second.question, plan=second).answer == ""


def test_recorded_replies_replay_exactly(games, astro_bot, tmp_path):
    script = planner(([SUB_QUERIES[0]], False, "image"), (SUB_QUERIES, True, "text"))
    results = []
    for model in (script, None):
        with open_with(games, RecordedMLLM(tmp_path / "replies.jsonl", model)) as kb:
            answer = kb.query(astro_bot, QUESTION, plan="parallel")
            results.append((steps(answer.plan), answer.plan.usage, answer.answer, answer.chunks))
    assert results[0] == results[1]


# ---- limits ------------------------------------------------------------------------------------


def never_stops():
    """A model that asks something new in each round."""
    return planner(*([[f"Question number {n}?"], False, "text"] for n in range(50)))


@pytest.mark.parametrize(
    ("limits", "rounds", "stopped"),
    [
        ({"max_rounds": 0}, 0, "the limit rounds=0"),
        ({"max_rounds": 5}, 5, "the limit rounds=5"),
        ({"max_rounds": 9, "max_calls": 0}, 0, "the limit calls=0"),
        ({"max_rounds": 9, "max_calls": 5}, 2, "the limit calls=5"),
        ({"max_rounds": 9, "max_tokens": 0}, 0, "the limit tokens=0"),
        ({"max_rounds": 9, "max_seconds": 0}, 0, "the limit seconds=0"),
    ],
)
def test_limits_hold_for_a_planner_that_never_stops(games, limits, rounds, stopped):
    with open_with(games, never_stops()) as kb:
        plan = kb.plan(None, QUESTION, PlanSettings("parallel", **limits))
    assert (len(plan.rounds), plan.stopped) == (rounds, stopped)


def test_a_plan_without_rounds_answers_from_no_evidence(games):
    answer = games.query(None, SUB_QUERIES[0], plan=PlanSettings(max_rounds=0))
    assert (answer.answer, answer.chunks) == ("", ())
    assert answer.reading.why == "The plan found nothing."


@pytest.mark.parametrize(
    "wrong",
    [{"modelling": "both"}, {"max_rounds": -1}, {"max_seconds": -1.0}, {"max_seconds": True}],
)
def test_settings_out_of_range(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        PlanSettings(**wrong)


# ---- bad planners ------------------------------------------------------------------------------


@MODELLINGS
def test_a_planner_that_repeats_its_search_is_stopped(games, modelling):
    mllm = planner((["How many copies?"], False, "text"))
    with open_with(games, mllm) as kb:
        plan = kb.plan(None, QUESTION, PlanSettings(modelling, max_rounds=9))
    assert len(plan.rounds) == 2
    assert plan.stopped == "the planner repeated a search"
    assert (plan.rounds[1].action, plan.rounds[1].searches) == ("none", ())
    assert Plan.from_dict(plan.to_dict()) == plan


@MODELLINGS
@pytest.mark.parametrize("reply", ["Let me think.", "", '{"action": "dance", "queries": {}}'])
def test_without_a_usable_reply_the_embedded_planner_decides(games, astro_bot, modelling, reply):
    with open_with(games, ScriptedMLLM(lambda request: reply)) as kb:
        plan = kb.plan(astro_bot, QUESTION, modelling)
    assert steps(plan) == steps(games.plan(astro_bot, QUESTION, modelling))
    assert all("decided by the embedded planner" in note for note in plan.rounds[0].notes)


def test_without_a_picture_that_was_found_the_embedded_planner_decides(tmp_path):
    hit = Hit("chunk:1", "Mill", "A mill.", str(tmp_path / "lost.png"))
    rounds = (Round((QUESTION,), "image", searches=(PlannedSearch(QUESTION, (hit,)),)),)
    state = PlanState(QUESTION, (QUESTION,), None, rounds)
    model_planner = MLLMPlanner(ScriptedMLLM(()), PlanSettings())
    for decision in model_planner.decide(state):
        assert decision.note.startswith("decided by the embedded planner")
        assert "lost.png" in decision.note


def test_a_reply_without_queries_keeps_the_query(games):
    with open_with(games, planner(([" ", ""], True, "text"), (["x"], True, "none"))) as kb:
        assert kb.plan(None, QUESTION).rounds[0].queries == (QUESTION,)


def test_a_search_by_picture_without_one_searches_texts(games):
    document = {"question": QUESTION, "rounds": [{"queries": [QUESTION], "action": "image"}]}
    (round_,) = games.plan(None, QUESTION, Plan.from_dict(document)).rounds
    assert round_.action == "text"
    assert "there is no picture" in round_.notes[0]


@pytest.mark.parametrize("region", [[50, 0, 50, 20], [90, 90, 200, 300]])
def test_an_empty_region_searches_the_whole_picture(games, astro_bot, region):
    rounds = [{"queries": [QUESTION], "action": "region", "region": region}]
    plan = Plan.from_dict({"question": QUESTION, "rounds": rounds})
    (round_,) = games.plan(astro_bot, QUESTION, plan).rounds
    assert round_.action == "image"
    assert "the region is empty" in round_.notes[0]


def test_a_region_is_in_pixels_of_a_large_picture(games, astro_bot, tmp_path):
    with Image.open(astro_bot) as small:
        small.convert("RGB").resize((3200, 2000)).save(tmp_path / "large.png")
    region = [0, 0, 3200, 1000]
    rounds = [{"queries": [QUESTION], "action": "region", "region": region}]
    plan = Plan.from_dict({"question": QUESTION, "rounds": rounds})
    (round_,) = games.plan(tmp_path / "large.png", QUESTION, plan).rounds
    assert list(round_.region) == region
    answer = games.query(tmp_path / "large.png", QUESTION, plan=plan)
    x0, y0, x1, y1 = answer.region.box
    assert 0 <= x0 < 1600 < x1 <= 3200
    assert 0 <= y0 < y1 <= 1000


@pytest.mark.parametrize("options", [{"method": "model-only"}, {"units": False}])
def test_a_plan_is_refused_with_options_that_search_otherwise(games, astro_bot, options):
    with pytest.raises(BadInput, match="plan cannot be combined with method"):
        games.query(astro_bot, QUESTION, plan="sequential", **options)


def test_the_other_actions(games, astro_bot):
    actions = ["graph", "evidence-graph", "relevance", "region"]
    rounds = [
        {"queries": [SUB_QUERIES[0]], "action": action, "region": [0, 0, 96, 64]}
        for action in actions
    ]
    plan = Plan.from_dict({"question": QUESTION, "rounds": rounds})
    results = games.plan(astro_bot, QUESTION, plan).rounds
    assert [round_.action for round_ in results] == actions
    assert "needs a model" in results[2].notes[0]
    assert results[3].searches[0].units[0] == "Astro Bot"


def test_relevance_drops_what_the_model_calls_irrelevant(games):
    def reply(request):
        if "relevant" in request.schema["properties"]:
            relevant = "Wukong" in lines_of(request)[-1]["text"]
            return {"reason": "", "relevant": "yes" if relevant else "no"}
        if "answer" in request.schema["properties"]:
            return {"reason": "", "citations": [], "answer": "20 million"}
        action = ("text", "relevance", "none")[round_of(request)]
        return {"reason": "", "queries": [QUESTION], "clear": True, "action": action}

    with open_with(games, ScriptedMLLM(reply)) as kb:
        answer = kb.query(None, QUESTION, plan="sequential", kcc=False)
    assert [round_.action for round_ in answer.plan.rounds] == ["text", "relevance", "none"]
    assert [chunk.origin for chunk in answer.chunks] == ["Black Myth Wukong"]


# ---- searchers ---------------------------------------------------------------------------------


class Web:
    def __init__(self, action):
        self.action = action

    def search(self, query, image, k):
        return self.action()


def ask_web(games, action, **limits):
    rounds = ([SUB_QUERIES[0]], True, "searcher:web"), ([SUB_QUERIES[0]], True, "none")
    with open_with(games, planner(*rounds)) as kb:
        settings = PlanSettings(**limits)
        return kb.query(None, QUESTION, plan=settings, searchers={"web": Web(action)})


def test_results_of_a_searcher_are_evidence(games):
    page = SearcherResult("page:1", "A page", "Astro Bot sold 2 million copies.")
    answer = ask_web(games, lambda: [page, page])
    assert [(chunk.source, chunk.text) for chunk in answer.chunks] == [("page:1", page.text)]
    assert answer.plan.rounds[0].searches[0].hits[0].title == "A page"


@pytest.mark.parametrize(("tokens", "characters"), [(5, 20), (800, 3200), (1000, 4000)])
def test_texts_of_a_searcher_have_the_tokens_of_the_settings(games, tokens, characters):
    page = SearcherResult("page:1", "A page", "Astro Bot " * 1000)
    answer = ask_web(games, lambda: [page], text_tokens=tokens)
    (search,) = answer.plan.rounds[0].searches
    assert len(search.hits[0].text) == len(answer.chunks[0].text) == characters


def test_a_searcher_cannot_replace_evidence_of_the_base(games):
    text = games.query(None, SUB_QUERIES[0], plan="sequential").chunks[0]
    page = SearcherResult(f"chunk:{text.chunk}", "x" * 1000, "Astro Bot sold nothing.")
    rounds = ([SUB_QUERIES[0]], True, "searcher:web"), ([SUB_QUERIES[0]], True, "text")
    with open_with(games, planner(*rounds)) as kb:
        web = {"web": Web(lambda: [page])}
        answer = kb.query(None, QUESTION, plan="sequential", searchers=web)
    assert {page.text, text.text} <= {chunk.text for chunk in answer.chunks}
    assert len(answer.plan.rounds[0].searches[0].hits[0].title) == 300


def test_a_searcher_that_raises_is_reported(games):
    answer = ask_web(games, lambda: [][1])
    assert "the searcher web failed: IndexError" in answer.plan.rounds[0].searches[0].error


def test_a_searcher_that_hangs_is_given_up(games):
    end = threading.Event()
    answer = ask_web(games, lambda: end.wait(60) or [], max_seconds=1)
    end.set()
    assert "no result within" in answer.plan.rounds[0].searches[0].error


def test_a_searcher_that_was_not_given(games):
    rounds = [{"queries": [QUESTION], "action": "searcher:web"}]
    plan = games.plan(None, QUESTION, Plan.from_dict({"question": QUESTION, "rounds": rounds}))
    assert "unknown action 'searcher:web'" in plan.stopped
    with pytest.raises(NotFound, match="no searcher 'web'"):
        games.plan(None, QUESTION, searchers=["web"])


def test_an_action_is_compared_whole(games):
    plan = Plan(QUESTION, (Round((QUESTION,), "xsearcher:web"),))
    result = games.plan(None, QUESTION, plan, searchers={"web": Web(list)})
    assert (result.rounds[0].action, result.rounds[0].searches) == ("none", ())
    assert result.stopped == "the planner asked for the unknown action 'xsearcher:web'"


# ---- documents ---------------------------------------------------------------------------------


ROUND = {"queries": ["What?"], "action": "text"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "has the field 'colour'"),
        ({"rounds": [{**ROUND, "goto": 1}]}, r"rounds\[0\] has the field 'goto'"),
        ({"rounds": [{"queries": ["What?"]}]}, "lacks the field 'action'"),
        ({"rounds": [{**ROUND, "action": "dance"}]}, "action 'dance'"),
        ({"rounds": [{**ROUND, "queries": []}]}, "no query"),
        ({"rounds": [{**ROUND, "queries": "What?"}]}, "expected a list"),
        ({"rounds": [{**ROUND, "action": "region"}]}, "region"),
        ({"rounds": [{**ROUND, "region": [1, 2]}]}, "expected a list of 4"),
        ({"rounds": [ROUND, {**ROUND, "queries": ["Who?"]}, ROUND]}, "round 3 .* repeats round 1"),
        ({"question": None}, "expected str"),
        ({"settings": {"modelling": "both"}}, "modelling"),
        ({"version": 2}, "version 2"),
        ({"question": "\ud800"}, "question"),
        ({"question": [[[[]]]]}, "expected str"),
    ],
)
def test_a_document_that_is_no_plan(changes, message):
    with pytest.raises(BadInput, match=message):
        Plan.from_dict({"question": "What?", "rounds": [], **changes})


def test_a_plan_is_read_from_a_file_or_an_answer(tmp_path):
    file = tmp_path / "plan.json"
    plan = Plan.from_dict({"question": "What?", "rounds": [ROUND]})
    for document in (plan.to_dict(), {"answer": "", "plan": plan.to_dict()}):
        file.write_text(json.dumps(document))
        assert Plan.read(file) == plan
    file.write_text("{")
    with pytest.raises(BadInput, match="not a JSON document"):
        Plan.read(file)


def test_tokens_are_those_of_both_threads_or_of_the_slower_one():
    rounds = tuple(Plan.from_dict({"question": "?", "rounds": [ROUND]}).rounds)
    rounds = (replace(rounds[0], tokens=(3, 5)), replace(rounds[0], tokens=(4, 1)))
    for modelling, expected in (("parallel", (13, 9)), ("sequential", (13, 13))):
        assert Plan("?", rounds, settings=PlanSettings(modelling)).tokens == expected


def test_parallel_decisions_are_made_at_the_same_time(games):
    both = threading.Barrier(2)

    def reply(request):
        both.wait(30)
        return {"queries": [QUESTION], "clear": True, "action": "none"}

    with open_with(games, ScriptedMLLM(reply)) as kb:
        plan = kb.plan(None, QUESTION, "parallel")
    assert plan.stopped == "the planner chose no further search"
