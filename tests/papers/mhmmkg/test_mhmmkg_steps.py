"""The published method end to end, the authors' prompts, and the similarity of captions."""

from __future__ import annotations

import json
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import BadInput, BudgetSpent, ModelFailed, NotFound
from ku_rag.evaluation import judge_captions
from ku_rag.mllm.prompts import load_prompts
from ku_rag.types import Relation
from tests.conftest import picture
from tests.endpoint import says, serving
from tests.papers.transcripts import check_transcript, keys_of

QUESTION = "Which attack follows Triple Rush?"
TEMPLATES = r'''
class TP:
    def __init__(self, point, mode):
        self.perception = point["Perception"]
        self.mode = mode
        self.temp1 = "You hunt $ monsters."
        raise SystemExit("this code is not to be run")

    def temp2(self):
        if self.perception == "":
            temp = f"Nothing is seen. {self.question}"
        elif "Vision-needed" in self.mode:
            temp = f" On the screen, answer: {self.question}"
            temp = self.temp4() + temp
        else:
            temp = f"Somebody says: {self.perception}"
        return temp

    def temp3(self):
        if self.use_name:
            temp = f" of {self.monster_name}"
        else:
            temp = ""
        return temp

    def temp4(self):
        if len(self.images) == 1:
            temp = f"One picture{self.temp3()}."
        else:
            temp = f"Frames{self.temp3()}."
        return temp

    def temp6(self, memory, entity):
        # what was collected
        if memory != "":
            temp = f"""
            Collected up to {entity}:
            {memory}
            """
        else:
            temp = ""
        return temp

    def temp7(self, images, memory):
        if "Online" in self.mode and images != "":
            if memory != "":
                temp = f"Decide with what was collected."
            else:
                temp = f"Decide."
            temp += " Reply 'Yes' or 'No', and describe."
        else:
            temp = "Reply 'Yes' or 'No'."
        return temp

    def temp8(self, pictures, entity):
        if "Online" in self.mode and pictures != "":
            temp = f"You see \"{entity}\"."
        else:
            temp = ""
        return temp

    def temp9(self):
        return f"Seen: {self.perception} Asked: {self.question}"

    def topic_entity_selection(self):
        template_ = f"""
        Find the monster.
        {self.question}
        Options: {self.subgraph_options}
        """
        return template_

    def question_image_understanding(self):
        return f"""{self.temp1} {self.temp4()} Describe it for {self.question}"""

    def entity_selection(self, memory, current_entity, neighbor_entity):
        template_ = f"""
        {self.temp1}
        {self.temp9()}

        {self.temp6(memory, current_entity)}
        Neighbours of '{current_entity}':
        {neighbor_entity}
        Go on where it helps.
        """
        return template_

    def entity_analysis(self, memory, entity, entity_info, entity_images=""):
        "Whether it is sufficient."
        if entity_info != "":
            temp = f"Information: {entity_info}"
        else:
            temp = ""
        if self.perception == "":
            ttt = self.temp2()
        else:
            ttt = self.temp9()
        template_ = f"""
        {ttt}
        {self.temp6(memory, entity)}
        {temp}
        {self.temp8(entity_images, entity)}
        {self.temp7(entity_images, memory)}
        """
        print(template_)
        return template_

    def question_answer(self, knowledge):
        if knowledge != "":
            temp_ = f"""
        The 'Knowledge':
        {knowledge}
        Answer by it.
        """
        else:
            temp_ = "Answer."
        return f"""{self.temp1}
        {self.temp2()}
        {temp_}
        No analysis."""


def offline_images_description(images, name, entity):
    if len(images) == 1:
        temp = f"One picture{name}"
    else:
        temp = f"Frames{name}"
    return f"""{temp} as visual information for {entity}."""


def evaluation_temp(question, answer1, answer2):
    return f"""Question: {question} Answers: {answer1} {answer2}
    Sample 1: "Back Slam" and "Zinogre Back Slam": Yes"""


def evaluation_temp_caption(truth, generated):
    return f"""First: {truth} Second: {generated} Focus on movement."""
'''
OFFICIAL = {
    "perceive": "You hunt $$ monsters. Frames of [known]. Describe it for $question",
    "expand": (
        "You hunt $$ monsters.\nSeen: [shown] Asked: $question\n"
        "Collected up to [entity]:\n[path]\n"
        "Neighbours of '[entity]':\n$data\nGo on where it helps."
    ),
    "validate": (
        "Seen: [shown] Asked: $question\nCollected up to [entity]:\n[path]\n"
        'Information: $data\nYou see "[entity]".\n'
        "Decide with what was collected. Reply 'Yes' or 'No', and describe."
    ),
    "answer": (
        "You hunt $$ monsters.\nFrames of [known]. On the screen, answer: $question\n"
        "The 'Knowledge':\n$data\nAnswer by it.\nNo analysis."
    ),
    "describe": "Frames as visual information for [entity].\n\n$data",
}


def hunter(request):
    keys, text = keys_of(request), request.messages[-1].text
    if keys == "text":
        return "Bite" if "Answer the question" in text else "A wyvern runs."
    if "topic" in keys:
        return {"reason": "It is named.", "topic": "Rathian"}
    if "useful" in keys:
        lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"neighbour"')]
        return {"reason": "They follow.", "useful": [line["neighbour"] for line in lines]}
    return {"reason": "It follows.", "enough": "continues" in text, "caption": "It runs."}


@pytest.fixture
def hunt(tmp_path):
    rush = picture(tmp_path / "rush.png", 1)
    captions = {"caption": "Runs three times.", "caption by m": "A wyvern that runs."}
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(
            [
                Unit(
                    "Rathian",
                    id="Rathian",
                    metadata={"topic": True},
                    relations=(Relation("attack of", "Triple Rush", "attack"),),
                ),
                Unit(
                    "Triple Rush",
                    id="Triple Rush",
                    images=(rush,),
                    metadata=captions,
                    relations=(Relation("continues", "Bite", "attack", None, "near"),),
                ),
                Unit("Bite", id="Bite", texts=("It bites.",)),
            ]
        )
    return tmp_path / "kb", rush


@pytest.fixture
def clone(tmp_path):
    file = tmp_path / "MH-MMKG" / "things" / "templates.py"
    file.parent.mkdir(parents=True)
    file.write_text(TEMPLATES, encoding="utf-8")
    return file.parents[1]


def test_agents_search_and_answer(hunt, request):
    folder, photo = hunt
    mllm = ScriptedMLLM(hunter)
    with KnowledgeBase.open(folder, read_only=True, mllm=mllm) as kb:
        answer = kb.query(photo, QUESTION, strict="mhmmkg")
    assert (answer.answer, answer.outcome, answer.chunks) == ("Bite", "answered", ())
    expected = "Rathian —attack of→ Triple Rush —continues→ Bite (when near)"
    assert [path.text for path in answer.paths] == [expected]
    assert [unit.id for unit in answer.units] == ["Rathian"]
    assert answer.to_dict()["usage"]["replies"] == len(mllm.requests)
    check_transcript(mllm, Path(__file__).with_name("transcript.txt"), request)


@pytest.mark.usefixtures("own_surroundings")
def test_another_model_takes_the_roles_that_see_pictures(hunt):
    folder, photo = hunt
    mllm = ScriptedMLLM(hunter)

    def look(body):
        verdict = {"reason": "It goes on.", "enough": False, "caption": "It runs thrice."}
        return says(json.dumps(verdict) if "response_format" in body else "A wyvern runs.")

    with serving(by=look) as vision:
        eyes = {"vision_mllm": "v-1", "vision_mllm_url": vision.url}
        with KnowledgeBase.open(folder, read_only=True, mllm=mllm, **eyes) as kb:
            answer = kb.query(photo, QUESTION, strict="mhmmkg")
    assert all(message.pictures == () for r in mllm.requests for message in r.messages)
    assert len(vision.bodies) == 2  # the perceiver, and the validation of Triple Rush
    last = mllm.requests[-1].messages[-1].text
    assert '{"shown": "A wyvern runs."}' in last
    assert '"caption": "It runs thrice."' in last
    assert answer.correction.notes == ("the model was sent no pictures",)
    assert answer.correction.usage["replies"] == len(mllm.requests) + 2


@pytest.mark.parametrize("options", [{"kind": "attack"}, {"where": "a=1"}, {"unit": "Bite"}])
def test_it_searches_the_whole_graph(hunt, options):
    mllm = ScriptedMLLM(hunter)
    with (
        KnowledgeBase.open(hunt[0], read_only=True, mllm=mllm) as kb,
        pytest.raises(BadInput, match=f"does not use {min(options)}: leave it out"),
    ):
        kb.query(None, QUESTION, strict="mhmmkg", **options)
    assert mllm.requests == []


def test_it_needs_a_model(hunt):
    with (
        KnowledgeBase.open(hunt[0], read_only=True) as kb,
        pytest.raises(NotFound, match="name one with --mllm"),
    ):
        kb.query(None, QUESTION, strict="mhmmkg")


@pytest.mark.parametrize("error", [BudgetSpent, ModelFailed])
def test_without_an_answer_it_fails_as_other_methods_do(hunt, error):
    def model(request):
        if "Answer the question" in request.messages[-1].text:
            raise error("no more replies")
        return hunter(request)

    with (
        KnowledgeBase.open(hunt[0], read_only=True, mllm=ScriptedMLLM(model)) as kb,
        pytest.raises(error, match="no more replies"),
    ):
        kb.query(None, QUESTION, strict="mhmmkg")


def test_the_authors_prompts_are_read_and_not_run(hunt, clone):
    folder, photo = hunt
    mllm = ScriptedMLLM(lambda r: "Yes" if "Focus" in r.messages[-1].text else hunter(r))
    prompts = f"official:{clone}"
    with KnowledgeBase.open(folder, read_only=True, mllm=mllm, prompts=prompts) as kb:
        kb.query(photo, QUESTION, strict="mhmmkg")
        names = load_prompts("ku_rag.papers.mhmmkg", kb.prompts)
        assert all("official" in prompt.version for prompt in names.values())
        (similarity,) = judge_captions(kb)
        written = kb.prompts
    assert (similarity.model, similarity.entities, similarity.share) == ("m", 1, 1.0)
    assert not written.exists()
    topic = next(r for r in mllm.requests if "topic" in keys_of(r)).messages[-1].text
    assert topic.startswith(f"Find the monster.\n{QUESTION}\nOptions: =====")
    assert '"topic": the name' in topic
    perceive = mllm.requests[0].messages[-1].text
    assert perceive.startswith("You hunt $ monsters.")
    assert "Zinogre Back Slam" in load_prompts_of_judge(clone, folder)


def test_the_authors_words_are_complete(hunt, clone):
    with KnowledgeBase.open(hunt[0], read_only=True, prompts=f"official:{clone}") as kb:
        prompts = load_prompts("ku_rag.papers.mhmmkg", kb.prompts)
        judge = load_prompts("ku_rag.evaluation", kb.prompts)["judge_answer"].text
    for name, words in OFFICIAL.items():
        assert prompts[name].text.startswith(f"{words}\n\n"), name
    assert judge.startswith("Question: $question Answers: [reference] [answer]\nSample 1:")


def load_prompts_of_judge(clone, folder):
    with KnowledgeBase.open(folder, read_only=True, prompts=f"official:{clone}") as kb:
        return load_prompts("ku_rag.evaluation", kb.prompts)["judge_answer"].text


def test_a_judge_is_asked_outside_of_a_transaction(hunt):
    folder, commits = hunt[0], []

    def judge(_):
        with KnowledgeBase.open(folder) as writer:
            writer.add(Unit("Barioth", texts=("It leaps.",)))
        commits.append(kb.commits)
        return "Yes"

    with KnowledgeBase.open(folder, read_only=True, mllm=ScriptedMLLM(judge)) as kb:
        before = kb.commits
        judge_captions(kb)
    assert commits == [before + 1]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def x(:", "cannot be read as Python"),
        ("x = 1", "has no template entity_analysis"),
        (
            TEMPLATES.replace('f"Seen: {self.perception} Asked: {self.question}"', '"%s" % self.x'),
            r"the template entity_selection cannot be followed without running it",
        ),
        (TEMPLATES.replace("Frames{name}", "{x(1)}"), "template offline_images_description .*x"),
        (TEMPLATES.replace("self.temp3()", "self.temp4()"), "question_image_understanding"),
    ],
)
def test_a_clone_without_templates(hunt, clone, code, message):
    (clone / "things" / "templates.py").write_text(code, encoding="utf-8")
    for folder, error, expected in (
        (clone, BadInput, message),
        ("/nowhere", NotFound, "name a clone"),
    ):
        with (
            KnowledgeBase.open(hunt[0], read_only=True, prompts=f"official:{folder}") as kb,
            pytest.raises(error, match=expected),
        ):
            assert kb.prompts


def test_threads_wait_for_the_authors_prompts(hunt, clone):
    for _ in range(10):
        with (
            KnowledgeBase.open(hunt[0], read_only=True, prompts=f"official:{clone}") as kb,
            ThreadPool(8) as pool,
        ):
            counts = pool.map(lambda _, kb=kb: len([*kb.prompts.iterdir()]), range(8))
        assert counts == [8] * 8


def test_paths_of_prompts_start_at_the_working_directory_or_the_base(hunt, clone, ku):
    (clone.parent / "own").mkdir()
    (clone.parent / "own" / "draft.md").write_text("What is it?", encoding="utf-8")
    model = ("--mllm", "m", "--mllm-url", "http://127.0.0.1:9")
    run = ku("query", "-", QUESTION, *model, "--prompts", "own")
    assert f"{clone.parent}/own/draft.md has no $question" in run.err
    run = ku("query", "-", QUESTION, *model, "--prompts", "official:absent")
    assert f"{clone.parent}/absent/things" in run.err
    with KnowledgeBase.open(hunt[0], read_only=True, prompts="official:../MH-MMKG") as kb:
        assert kb.prompts.is_dir()
    with (
        KnowledgeBase.open(hunt[0], read_only=True, prompts="official:") as kb,
        pytest.raises(NotFound, match="name a clone of the MH-MMKG repository"),
    ):
        assert kb.prompts


def test_captions_of_a_graph_are_compared_on_the_command_line(hunt, ku, monkeypatch):
    run = ku("eval", "captions", "--kb", hunt[0])
    assert (run.code, "name one with --judge" in run.err) == (1, True)
