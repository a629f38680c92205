"""The published method end to end, and an independent check of equations 1 to 8."""

from __future__ import annotations

from pathlib import Path

import pytest

from ku_rag import KnowledgeBase
from ku_rag.errors import BadInput, NotFound
from ku_rag.papers.cogplanner.plan import Plan, PlanSettings, Round
from tests.endpoint import says, serving
from tests.papers.cogplanner.test_rounds import QUESTION, SUB_QUERIES, open_with, planner
from tests.papers.transcripts import check_transcript, keys_of

ROUNDS = ((["Astro Bot"], False, "image"), (SUB_QUERIES, True, "text"), (SUB_QUERIES, True, "none"))


@pytest.mark.parametrize("modelling", ["sequential", "parallel"])
def test_a_plan_of_published_actions_and_one_answer(games, astro_bot, request, modelling):
    mllm = planner(*ROUNDS)
    with open_with(games, mllm) as kb:
        answer = kb.query(astro_bot, QUESTION, strict="cogplanner", plan=modelling)
    assert (answer.answer, answer.models["prompts"]) == ("18.5 million", "generate 1")
    for decision in mllm.requests:
        action = (decision.schema["properties"]).get("action")
        assert action is None or action["enum"] == ["text", "image", "none"]
    if modelling == "sequential":  # in parallel both requests of a round are sent at once
        check_transcript(mllm, Path(__file__).with_name("transcript.txt"), request)


def test_both_decisions_read_the_queries_that_the_equations_give(games, astro_bot):
    """Eq. 7: Q_t and A_t from Q_(t-1) and D_t; eq. 8: A_t from Q_t."""
    for modelling in ("parallel", "sequential"):
        mllm = planner(*ROUNDS)
        with open_with(games, mllm) as kb:
            kb.query(astro_bot, QUESTION, strict="cogplanner", plan=modelling)
        queries = [QUESTION, "Astro Bot"]  # Q_0 and Q_1
        reformulations = [r for r in mllm.requests if "clear" in keys_of(r)]
        chosen = [r for r in mllm.requests if "action" in keys_of(r)]
        for n, query in enumerate(queries):
            assert f'{{"query": "{query}"}}' in reformulations[n].messages[0].text
            expected = query if modelling == "parallel" else ROUNDS[n][0][0]
            assert f'{{"query": "{expected}"}}' in chosen[n].messages[0].text


def test_the_answer_is_given_the_question_the_last_queries_and_all_evidence(games, astro_bot):
    """Eq. 6: A = M(Q_0, Q_T, D)."""
    texts = {}
    for last in (False, True):
        mllm = planner(*ROUNDS)
        with open_with(games, mllm) as kb:
            plan = PlanSettings(last_round=last, text_tokens=5)
            answer = kb.query(astro_bot, QUESTION, strict="cogplanner", plan=plan)
        (message,) = mllm.requests[-1].messages
        texts[last] = {chunk.text for chunk in answer.chunks}
        rounds = answer.plan.rounds[-2:-1] if last else answer.plan.rounds
        hits = [h for r in rounds for s in r.searches for h in s.hits]
        assert texts[last] == {hit.text[:20] for hit in hits}
        assert all(f'"text": "{text}"' in message.text for text in texts[last])
        assert all(f'{{"query": "{query}"}}' in message.text for query in SUB_QUERIES)
        assert f"Question: {QUESTION}" in message.text
        assert len(message.pictures) == 1 + len(answer.plan.pictures())
    assert texts[True] <= texts[False]


@pytest.mark.usefixtures("own_surroundings")
def test_another_model_describes_the_picture_to_the_one_that_answers(games, astro_bot):
    mllm = planner(*ROUNDS)
    with serving(by=lambda _: says("A robot.")) as vision:
        eyes = {"vision_mllm": "v-1", "vision_mllm_url": vision.url}
        with KnowledgeBase.open(games.path, read_only=True, mllm=mllm, **eyes) as kb:
            answer = kb.query(astro_bot, QUESTION, strict="cogplanner")
    (message,) = mllm.requests[-1].messages
    assert (message.pictures, '{"shown": "A robot."}' in message.text) == ((), True)
    assert len(vision.pictures(0)) == 1
    assert answer.correction.caption == "A robot."
    assert answer.correction.notes == ("the model was sent no pictures",)


def test_it_needs_a_model_and_known_actions(games):
    with pytest.raises(NotFound, match="name one with --mllm"):
        games.query(None, QUESTION, strict="cogplanner")
    with pytest.raises(BadInput, match="the action is 'dance'"):
        PlanSettings(actions=("dance",))


def test_its_plan_has_the_published_actions_alone(games, astro_bot, ku):
    mllm = planner(*ROUNDS)
    with open_with(games, mllm) as kb:
        plan = kb.plan(astro_bot, QUESTION, strict="cogplanner")
        with pytest.raises(BadInput, match="makes no plan"):
            kb.plan(astro_bot, QUESTION, strict="kurag")
        drawn = Plan(QUESTION, (Round((QUESTION,), "graph"),))
        for refused in (PlanSettings(actions=("text", "graph")), drawn):
            for ask in (kb.plan, kb.query):
                with pytest.raises(BadInput, match="text, image, none: leave out 'graph'"):
                    ask(astro_bot, QUESTION, plan=refused, strict="cogplanner")
    assert (plan.planner, plan.settings.actions) == ("mllm", ("text", "image", "none"))
    run = ku("query", "-", QUESTION, "--plan-only", "--strict", "cogplanner", "--kb", games.path)
    assert (run.code, "name one with --mllm" in run.err) == (1, True)


def test_the_last_round_has_its_own_paths_alone(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.graph.add_relation("Astro Bot", "developer", "Team Asobi")
        kb.graph.add_relation("Black Myth Wukong", "developer", "Game Science")
        rounds = [
            Round((f"Who is the developer of {name}?",), "graph")
            for name in ("Astro Bot", "Black Myth Wukong")
        ]
        for last, ends in ((False, {"Team Asobi", "Game Science"}), (True, {"Game Science"})):
            plan = Plan("Who made it?", tuple(rounds), settings=PlanSettings(last_round=last))
            answer = kb.query(None, "Who made it?", plan=plan, graph=False)
            assert {path.entities[-1] for path in answer.paths} == ends


def test_actions_and_limits_of_a_plan_on_the_command_line(games, ku):
    options = ("--plan", "sequential", "--actions", "text, none", "--plan-limit", "texts=2")
    run = ku("query", "-", QUESTION, *options, "--last-round", "--kb", games.path, "--json")
    settings = run.json["plan"]["settings"]
    chosen = [settings[name] for name in ("actions", "k", "last_round", "text_tokens")]
    assert chosen == [["text", "none"], 2, True, 800]
    assert all(len(s["hits"]) <= 2 for r in run.json["plan"]["rounds"] for s in r["searches"])
    run = ku("query", "-", QUESTION, "--actions", "text", "--kb", games.path)
    assert (run.code, "need --plan" in run.err) == (2, True)


def test_options_of_strict_methods_reach_them(games, ku):
    for options in (
        ("--strict", "graphrag", "--no-table-mining"),
        ("--strict", "cogplanner", "--plan-limit", "rounds=1"),
    ):
        run = ku("query", "-", QUESTION, *options, "--kb", games.path)
        assert (run.code, "name one with --mllm" in run.err) == (1, True)
