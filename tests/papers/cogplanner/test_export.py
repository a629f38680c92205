"""Fine-tuning records of plans: equal prompts, omitted plans, and a model that learns them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM
from ku_rag.errors import BadInput, NotFound
from ku_rag.evaluation import evaluate
from ku_rag.papers.cogplanner.export import export_plans
from ku_rag.pictures import load_picture

QUESTION = "How many copies did this game sell?"
ROUNDS = (
    (["What does this corner show?"], {"action": "region", "region": [0, 0, 50, 100]}),
    (["How many copies did Astro Bot sell?"], {"action": "text"}),
    (["How many copies did Astro Bot sell?"], {"action": "none"}),
)


def model():
    """A model that plays the rounds."""

    def reply(request):
        fields = request.schema["properties"]
        queries, choice = ROUNDS[request.messages[-1].text.count('{"round": ')]
        if "queries" in fields:
            return {"reason": "Not named.", "queries": queries, "clear": False}
        return {"reason": "Not known.", **choice}

    return ScriptedMLLM(reply)


@pytest.fixture(params=["parallel", "sequential"])
def planned(games, astro_bot, request):
    """The document of a plan of three rounds, and the requests that led to it."""
    mllm = model()
    with KnowledgeBase.open(games.path, read_only=True, mllm=mllm) as kb:
        plan = kb.plan(astro_bot, QUESTION, request.param)
    return plan.to_dict(), mllm.requests


def write(file, document):
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_each_decision_is_a_record_with_the_prompt_that_was_sent(planned, astro_bot, tmp_path):
    document, requests = planned
    file = write(tmp_path / "plan.json", {**document, "accepted": True})
    report = export_plans([file], tmp_path / "records.json", {})
    assert (report.plans, report.records, report.left_out) == (1, 6, ())
    records = json.loads((tmp_path / "records.json").read_text("utf-8"))
    messages = [request.messages[-1] for request in requests]
    sent = ["<image>" * len(message.pictures) + message.text for message in messages]
    assert sorted(record["messages"][0]["content"] for record in records) == sorted(sent)
    replies = [json.loads(record["messages"][1]["content"]) for record in records]
    assert replies[0] == {"reason": "Not named.", "queries": ROUNDS[0][0], "clear": False}
    assert replies[1] == {"reason": "Not known.", "action": "region", "region": [0, 0, 50, 100]}
    assert replies[5] == {"reason": "Not known.", "action": "none"}
    for record in records:
        assert [turn["role"] for turn in record["messages"]] == ["user", "assistant"]
        assert record["images"][0] == str(astro_bot.resolve())
        assert record["messages"][0]["content"].count("<image>") == len(record["images"])
    # The second round sees the pictures of the units that the first one found.
    assert len(records[2]["images"]) > 1
    assert all(load_picture(Path(file)).size for file in records[2]["images"])


def test_the_file_is_described_beside_other_data_sets(planned, tmp_path):
    file = write(
        tmp_path / "plan.json", {"question": QUESTION, "plan": planned[0], "accepted": True}
    )
    write(tmp_path / "dataset_info.json", {"general": {"file_name": "general.json"}})
    export_plans([file], tmp_path / "plans.json", {})
    info = json.loads((tmp_path / "dataset_info.json").read_text("utf-8"))
    assert info["general"] == {"file_name": "general.json"}
    assert info["plans"]["file_name"] == "plans.json"
    assert info["plans"]["formatting"] == "sharegpt"
    assert info["plans"]["columns"] == {"messages": "messages", "images": "images"}
    assert info["plans"]["tags"]["assistant_tag"] == "assistant"
    (tmp_path / "dataset_info.json").write_text("[", encoding="utf-8")
    with pytest.raises(BadInput, match="JSON"):
        export_plans([file], tmp_path / "plans.json", {})


def test_what_is_not_accepted_or_broken_is_left_out_and_listed(games, astro_bot, tmp_path):
    plan = games.plan(astro_bot, QUESTION).to_dict()
    unseen = json.loads(json.dumps(plan))
    unseen["rounds"][0]["searches"][0]["hits"][0]["image"] = "unseen.png"
    files = [
        write(tmp_path / "good.json", {**plan, "accepted": True}),
        write(tmp_path / "open.json", plan),
        write(tmp_path / "refused.json", {"plan": {**plan, "accepted": True}, "accepted": False}),
        write(tmp_path / "lost.json", {**plan, "accepted": True, "image": "lost.png"}),
        write(tmp_path / "unseen.json", {**unseen, "accepted": True}),
        write(tmp_path / "odd.json", {**plan, "accepted": True, "colour": "red"}),
        write(tmp_path / "list.json", [plan]),
        tmp_path / "cut.json",
    ]
    files[-1].write_text('{"question": ', encoding="utf-8")
    report = export_plans(files, tmp_path / "records.json", {})
    assert (report.plans, report.records) == (1, 2 * len(plan["rounds"]))
    reasons = {problem.item.rpartition("/")[2]: problem.reason for problem in report.left_out}
    assert [*reasons] == [f"{file.name}:1" for file in files[1:]]
    assert "accepted" in reasons["open.json:1"]
    assert "accepted" in reasons["refused.json:1"]
    assert "lost.png" in reasons["lost.json:1"]
    assert "unseen.png" in reasons["unseen.json:1"]
    assert "colour" in reasons["odd.json:1"]
    with pytest.raises(BadInput, match="no plan is accepted"):
        export_plans(files[1:], tmp_path / "none.json", {})
    with pytest.raises(NotFound):
        export_plans([tmp_path / "missing.json"], tmp_path / "none.json", {})
    assert not (tmp_path / "none.json").exists()


def test_records_of_a_run_are_accepted_by_their_scores(games, tmp_path):
    questions = [
        {"id": "a", "question": "How many copies did Astro Bot sell?", "answers": ["none"]},
        {"id": "b", "question": "Where is Altoona?", "units": ["Altoona"]},
    ]
    file = tmp_path / "q.jsonl"
    file.write_text(
        "".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8"
    )
    evaluate(games, file, method="plan", out=tmp_path / "run")
    report = export_plans([tmp_path / "run"], tmp_path / "records.json", {"recall@5": 1.0})
    assert report.plans == 1
    assert [problem.item.rpartition(":")[2] for problem in report.left_out] == ["1"]
    with pytest.raises(BadInput, match="no plan is accepted"):
        export_plans([tmp_path / "run"], tmp_path / "records.json", {})


@pytest.mark.slow
@pytest.mark.torch
def test_a_model_learns_the_records(games, astro_bot, tmp_path):
    """Trains a random LLaVA of 32 dimensions on bytes; the loss of the replies falls."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    with KnowledgeBase.open(games.path, read_only=True, mllm=model()) as kb:
        plan = kb.plan(astro_bot, QUESTION)
    file = write(tmp_path / "plan.json", {**plan.to_dict(), "accepted": True})
    export_plans([file], tmp_path / "records.json", {})
    records = json.loads((tmp_path / "records.json").read_text("utf-8"))
    torch.manual_seed(0)
    place, patches = 256, 4
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    net = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            vision_config=transformers.CLIPVisionConfig(
                **small, num_attention_heads=2, image_size=32, patch_size=16
            ),
            text_config=transformers.LlamaConfig(
                **small, num_attention_heads=2, vocab_size=257, max_position_embeddings=8192
            ),
            image_token_id=place,
            image_seq_length=patches,
        )
    )

    def loss(record):
        """The mean loss of the bytes of the reply."""
        user, assistant = (turn["content"] for turn in record["messages"])
        parts = [[*part.encode()] for part in user.split("<image>")]
        prompt = parts[0] + [token for part in parts[1:] for token in [place] * patches + part]
        reply = [*assistant.encode()]
        pictures = [load_picture(Path(file)).resize((32, 32)) for file in record["images"]]
        pixels = [torch.tensor(list(image.tobytes())).view(32, 32, 3) / 255 for image in pictures]
        labels = [-100] * len(prompt) + reply
        return net(
            input_ids=torch.tensor([prompt + reply]),
            pixel_values=torch.stack(pixels).permute(0, 3, 1, 2),
            labels=torch.tensor([labels]),
        ).loss

    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    losses = []
    for _ in range(5):
        losses.append([])
        for record in records:
            optimizer.zero_grad()
            value = loss(record)
            value.backward()
            optimizer.step()
            losses[-1].append(value.item())
    assert max(losses[-1]) < 0.75 * min(losses[0])


@pytest.mark.parametrize("name", ["plan.json", "dataset_info.json"])
def test_no_file_is_written_over(planned, tmp_path, name):
    file = write(tmp_path / "plan.json", {**planned[0], "accepted": True})
    before = file.read_bytes()
    with pytest.raises(BadInput, match="name another file"):
        export_plans([file], tmp_path / name, {})
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "least"),
    [({"accepted": "no"}, {}), ({"accepted": 1}, {}), ({"scores": {"f1": "high"}}, {"f1": 0.5})],
)
def test_what_is_not_accepted_is_left_out(planned, tmp_path, changes, least):
    file = write(tmp_path / "answer.json", {"plan": planned[0], **changes})
    with pytest.raises(BadInput, match='"accepted" is not true'):
        export_plans([file], tmp_path / "records.json", least)
