"""The tokenizer of a model folder and the tokens that end its texts."""

from pathlib import Path

import tokenizers

from models.pretrained.json_fields import Fields, read_json
from theory.errors import InvalidInput

TOKENIZER_FILE = "tokenizer.json"
GENERATION_FILE = "generation_config.json"


def load_tokenizer(folder: Path, vocab_size: int) -> tokenizers.Tokenizer | None:
    """The tokenizer of a folder.

    Args:
        folder: may hold `tokenizer.json`.
        vocab_size: of the model.

    Returns:
        The tokenizer, None where the folder has none (models over symbols need none).

    Raises:
        InvalidInput: the file is not a tokenizer, or it knows tokens that the model does not.
    """
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        return None
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 (the library raises nothing narrower)
        raise InvalidInput(f"{path}: is not a tokenizer ({error}), copy the file again") from None
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= vocab_size:
        raise InvalidInput(
            f"{path}: has token {highest} and the model's vocab_size is {vocab_size}, copy the file of this model"
        )
    return tokenizer


def eos_tokens(folder: Path, config: Fields, vocab_size: int) -> tuple[int, ...]:
    """The tokens that end a text: of `generation_config.json` where it names some, else of `config.json`.

    Args:
        folder: may hold `generation_config.json`, which is what generation by `transformers` goes by.
        config: of `config.json`.
        vocab_size: of the model.

    Returns:
        In the order of the file, without repetitions; empty where neither file names one.

    Raises:
        InvalidInput: not token ids of the model.
    """
    path = folder / GENERATION_FILE
    sources = [Fields(str(path), read_json(path))] if path.is_file() else []
    for fields in [*sources, config]:
        value = fields.values.get("eos_token_id")
        if value is None:
            continue
        tokens = value if isinstance(value, list) else [value]
        if not all(type(token) is int and 0 <= token < vocab_size for token in tokens):
            raise fields.unfit(
                "eos_token_id",
                f"a token id below the vocab_size of {vocab_size}, or a list of them",
            )
        return tuple(dict.fromkeys(tokens))
    return ()
