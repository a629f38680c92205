"""Text encoders of sentence-transformers, for use with a separate encoder of pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.encoders.offline_loading import offline_and_silent
from ku_rag.encoders.torch_runtime import TEXT_COSTS, Batches, check_length, place
from ku_rag.errors import BadInput, NotFound, reason
from ku_rag.plugins import extra
from ku_rag.weights.files import content_hash
from ku_rag.weights.tensors import read_tensors

_EXPECTED = "a folder that sentence-transformers saved, with modules.json and weights"
_LONGEST = 8192
"""Maximum number of tokens for models that state no limit."""
_LETTERS_PER_TOKEN = 64
"""An unknown word is a single token for some models, whatever its length."""
_SETTINGS = (
    *("modules.json", "config.json", "config_sentence_transformers.json"),
    *("sentence_bert_config.json", "tokenizer.json", "vocab.txt"),
)


class SentenceEncoder:
    """Encodes texts only; pictures need a second encoder.

    Args:
        argument: path of a saved model, or a name whose files are in the Hugging Face cache.

    Raises:
        NotFound: the model is not on this machine; nothing is downloaded.
        BadInput: it is damaged, contains code, or the device does not exist.
        MissingExtra: sentence-transformers is not installed.
    """

    cross_modal = False

    def __init__(
        self,
        argument: str = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        device: str = "auto",
        batch_size: int = 0,
    ) -> None:
        where = place(device, needs="sentence")
        folder = find_model(argument)
        files = model_files(folder)
        self._torch = extra("sentence", "torch")
        self._model = where.load(load_model(folder, "SentenceTransformer"))
        self._prompt = (self._model.prompts or {}).get(self._model.default_prompt_name) or ""
        self._count, marks = token_counter(self._model.tokenizer)
        limit = self._model.max_seq_length or getattr(
            self._model.tokenizer, "model_max_length", _LONGEST
        )
        self.max_tokens = int(min(limit, _LONGEST)) - marks - self._count(self._prompt)
        self._batches = Batches(batch_size, cost=TEXT_COSTS[where.device.type])
        self.dim = int(self._encode(["."]).shape[1])
        self.fingerprint = f"sentence:{content_hash(*files)}:float:{self.dim}"

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without start and end."""
        return self._count(text)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; `BadInput` for one of more than `max_tokens` tokens."""
        costs = {text: self._count(text) for text in texts}
        check_length(max(costs.values(), default=0), self)
        return self._batches.encode(texts, lambda text: costs[text] + 2, self._encode, self.dim)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        made = self._model.encode(
            list(texts), batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True
        )
        unit = self._torch.nn.functional.normalize(made.float(), dim=-1)
        return np.asarray(unit.cpu().numpy(), np.float32)


def find_model(argument: str) -> Path:
    """Return the folder of a model, given by its path or by its name in the Hugging Face cache."""
    given = Path(argument).expanduser()
    if given.is_dir():
        return given.absolute()
    if given.exists():
        raise BadInput(f"{given} is a file: expected {_EXPECTED}")
    if argument.startswith((".", "~")) or given.is_absolute() or argument.count("/") > 1:
        raise NotFound(f"there is no folder {given}: expected {_EXPECTED}")
    from ku_rag import weights
    from ku_rag.weights.catalogue import models

    if argument in models():
        return weights.find(argument)
    hub = extra("sentence", "huggingface_hub")
    name = argument if "/" in argument else f"sentence-transformers/{argument}"
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:  # its own errors are children of these
        raise NotFound(
            f"the model {name} is not here, and nothing is downloaded while encoding: fetch "
            f"https://huggingface.co/{name} on a machine with a network (`hf download {name}`) "
            "and give the path of its folder, or put it into this machine's Hugging Face cache"
        ) from error


def model_files(folder: Path, *, lists_modules: bool = True) -> list[Path]:
    """Return the files that determine what the model in a folder computes; refuse code.

    Without `lists_modules` modules.json may be missing. `BadInput` if files are missing or would
    run code.
    """
    try:
        listed = folder / "modules.json"
        read = lists_modules or listed.exists()
        modules = json.loads(listed.read_text(encoding="utf-8")) if read else []
        kinds = [str(module["type"]) for module in modules]
        places = sorted({folder, *(folder / str(module["path"]) for module in modules)})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(
            f"{folder} has no readable modules.json ({reason(error)}): expected {_EXPECTED}"
        ) from error
    if own := [kind for kind in kinds if not kind.startswith("sentence_transformers.")]:
        raise BadInput(
            f"{folder} asks for {own[0]}, which is code that sentence-transformers does not bring: "
            "nothing of it was run; choose a model that needs no code of its own"
        )
    files: list[Path] = []
    for at in places:
        found = sorted(at.glob("*.safetensors"))
        if not found:
            found = sorted(at.glob("*.bin"))
            for path in found:
                read_tensors(path, "weights")
        files += [*found, *(at / name for name in _SETTINGS if (at / name).is_file())]
    if all(path.suffix in (".json", ".txt") for path in files):
        raise BadInput(f"{folder} has no weights: expected {_EXPECTED}")
    return files


def load_model(folder: Path, kind: str) -> Any:  # noqa: ANN401 - of the class named `kind`
    """Load a model of a class of sentence-transformers, offline and without code of its own.

    `model_files` has checked the folder. `BadInput` if it cannot be loaded.
    """
    made = getattr(extra("sentence", "sentence_transformers"), kind)
    with offline_and_silent("sentence"):
        try:
            return made(str(folder), device="cpu", local_files_only=True, trust_remote_code=False)
        except Exception as error:  # every library below raises its own
            raise BadInput(
                f"{folder} cannot be loaded ({reason(error)}): expected {_EXPECTED}; copy it "
                "again if it should be one"
            ) from error


def token_counter(tokenizer: Any) -> tuple[Callable[[str], int], int]:  # noqa: ANN401
    """Return a function that counts tokens without special ones, and the number of special tokens.

    A tokenizer of the tokenizers library is copied, because encoding changes padding and truncation
    of the model's own, possibly in another thread.
    """
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(fast, "to_str"):
        return (
            lambda text: len(tokenizer.tokenize(text)),
            int(tokenizer.num_special_tokens_to_add()),
        )
    copy = type(fast).from_str(fast.to_str())
    copy.no_truncation()
    copy.no_padding()
    return (
        lambda text: max(
            len(copy.encode(text, add_special_tokens=False).ids), len(text) // _LETTERS_PER_TOKEN
        ),
        int(copy.num_special_tokens_to_add(is_pair=False)),
    )
