"""A server of a tiny vision model on this machine: a LLaVA of random weights behind transformers.

Its replies are meaningless and end at the limit of tokens or earlier. Run as a program with a
folder, it serves the model there, prints its address and ends with its input.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

IS_INSTALLED = all(map(find_spec, ("transformers", "accelerate", "fastapi", "openai", "uvicorn")))
_SIDE, _PATCH = 32, 16
"""Width and height of the model's input pictures and of their patches, px."""
PATCHES = (_SIDE // _PATCH) ** 2
"""Tokens of a picture."""
_CONTEXT = 32_768
_TEMPLATE = """{% for message in messages %}{{ message.role }}: {% if message.content is string %}\
{{ message.content }}{% else %}{% for part in message.content %}{{ '<image>' if \
part.type == 'image' else part.text }}{% endfor %}{% endif %}
{% endfor %}assistant: """


def save_vision_model(folder: Path) -> Path:
    """Write the model, whose tokens are bytes."""
    import torch
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens([AddedToken(name, special=True) for name in ("<image>", "</s>")])
    size = {"height": _SIDE, "width": _SIDE}
    transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size=size, do_center_crop=False),
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokens, eos_token="</s>", pad_token="</s>"
        ),
        patch_size=_PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    shape["num_attention_heads"] = 2
    model = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            vision_config=transformers.CLIPVisionConfig(
                **shape, image_size=_SIDE, patch_size=_PATCH
            ),
            text_config=transformers.LlamaConfig(
                **shape, vocab_size=len(letters) + 2, max_position_embeddings=_CONTEXT,
                bos_token_id=None, eos_token_id=len(letters) + 1, pad_token_id=len(letters) + 1,
            ),
            image_token_id=len(letters),
            image_seq_length=PATCHES,
            vision_feature_layer=-1,
        )
    )  # fmt: skip
    # The end of a reply becomes more probable with its length.
    model.generation_config.exponential_decay_length_penalty = (8, 2.0)
    model.save_pretrained(folder)
    return folder


def serve(folder: str) -> None:
    from transformers.cli.serve import Serve

    server = Serve(folder, port=0, device="cpu", default_seed=0, non_blocking=True).server
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
