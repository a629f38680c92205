"""BARTScore and perplexity of tiny models with random weights, compared to the definitions."""

from __future__ import annotations

import math

import pytest

from ku_rag.errors import NotFound
from ku_rag.evaluation.measures import is_lower_better, measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion

pytestmark = pytest.mark.torch
WORDS = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "a",
    "red",
    "blue",
    "lamp",
    "stands",
    "on",
    "the",
    "table",
]
GOLD = ["a red lamp", "red"]
BLUE = "a blue lamp on the red"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", eos_token="</s>"
    )
    torch.manual_seed(0)
    size = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": len(WORDS)}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**size, **heads))
    gpt = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=len(WORDS))
    )
    folders = {}
    for name, model in (("bart", bart), ("gpt", gpt)):
        folders[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(folders[name])
        tokenizer.save_pretrained(folders[name])
    return folders, tokenizer, bart.eval(), gpt.eval()


def log_likelihood(tokenizer, bart, source, target):
    """The mean of log p(token | source, tokens before), token by token."""
    torch = pytest.importorskip("torch")
    source_ids, tokens = (torch.tensor([tokenizer(text).input_ids]) for text in (source, target))
    start = bart.config.decoder_start_token_id
    logs = []
    for n in range(tokens.shape[1]):
        before = torch.cat([torch.tensor([[start]]), tokens[:, :n]], 1)
        with torch.no_grad():
            logits = bart(input_ids=source_ids, decoder_input_ids=before).logits[0, -1]
        logs.append(float(logits.log_softmax(0)[tokens[0, n]]))
    return sum(logs) / len(logs)


def test_fluency_is_relative_to_the_best_reference(score, checkpoints):
    folders, tokenizer, bart, _ = checkpoints
    ratios = [
        math.exp(
            log_likelihood(tokenizer, bart, answer, BLUE)
            - log_likelihood(tokenizer, bart, answer, answer)
        )
        for answer in GOLD
    ]
    name = f"qa_fl:{folders['bart']}"
    assert score(name, BLUE, answers=GOLD) == pytest.approx(min(1.0, max(ratios)), abs=1e-4)
    assert score(name, "a red lamp", answers=GOLD) == 1.0
    assert score(name, "", answers=GOLD) == 0.0


def test_quality_is_fluency_times_accuracy(score, checkpoints):
    folders, *_ = checkpoints
    fluency, accuracy, quality = (
        score(name, "a red lamp", answers=["red"], category="color")
        for name in (f"qa_fl:{folders['bart']}", "webqa", f"qa:{folders['bart']}")
    )
    assert quality == pytest.approx(fluency * accuracy)


def test_perplexity_of_an_answer(score, checkpoints):
    torch = pytest.importorskip("torch")
    folders, tokenizer, _, gpt = checkpoints
    tokens = torch.tensor([tokenizer(BLUE).input_ids])
    with torch.no_grad():
        logs = gpt(tokens).logits[0, :-1].log_softmax(1)
    mean = float(logs.gather(1, tokens[0, 1:, None]).mean())
    name = f"perplexity:{folders['gpt']}"
    assert score(name, BLUE, answers=GOLD) == pytest.approx(math.exp(-mean), rel=1e-4)
    assert score(name, "lamp", answers=GOLD) is None
    assert is_lower_better(name)


def test_a_folder_without_a_checkpoint(tmp_path):
    with pytest.raises(NotFound, match="holds no checkpoint"):
        measure(f"qa_fl:{tmp_path}").score(
            EvaluationQuestion("1", "?", answers=("red",)), Prediction(BLUE)
        )
