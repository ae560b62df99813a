"""The architectures that can be read, by the name that config.json has for them."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from models.pretrained import architectures, own_format
from models.pretrained.json_fields import Fields
from models.pretrained.stored_tensors import Recipe, gemma_recipe, gpt2_recipe, llama_recipe
from models.transformer.config import TransformerConfig
from theory.errors import InvalidInput


class Family(NamedTuple):
    """How a family is read.

    Attributes:
        architecture: first of the field `architectures`.
        model_type: the field of this name, which old files have alone.
        config: from config.json and the tokens that end a text to the configuration.
        recipe: from the configuration and the names of the stored tensors to what fills our parameters.
    """

    architecture: str
    model_type: str
    config: Callable[[Fields, tuple[int, ...]], TransformerConfig]
    recipe: Callable[[TransformerConfig, Collection[str]], Recipe]


def _gpt2(config: TransformerConfig, names: Collection[str]) -> Recipe:
    prefix = "transformer."
    return gpt2_recipe(config, prefix if any(name.startswith(prefix) for name in names) else "")


def _llama(config: TransformerConfig, names: Collection[str]) -> Recipe:
    del names
    return llama_recipe(config)


def _gemma(config: TransformerConfig, names: Collection[str]) -> Recipe:
    del names
    return gemma_recipe(config)


def _own(config: TransformerConfig, names: Collection[str]) -> Recipe:
    del names
    return own_format.own_recipe(config)


FAMILIES = (
    Family("GPT2LMHeadModel", "gpt2", architectures.gpt2_config, _gpt2),
    Family("LlamaForCausalLM", "llama", architectures.llama_config, _llama),
    Family("MistralForCausalLM", "mistral", architectures.mistral_config, _llama),
    Family("Qwen2ForCausalLM", "qwen2", architectures.qwen2_config, _llama),
    Family("Qwen3ForCausalLM", "qwen3", architectures.qwen3_config, _llama),
    Family("GemmaForCausalLM", "gemma", architectures.gemma_config, _gemma),
    Family(own_format.ARCHITECTURE, "rolloutlab", own_format.own_config, _own),
)


def find_family(fields: Fields) -> Family:
    """The family that a config.json is of.

    Args:
        fields: of config.json.

    Returns:
        The family.

    Raises:
        InvalidInput: it names none, or one that is not known.
    """
    named = fields.values.get("architectures")
    if isinstance(named, list) and named:
        field, name = "architectures", named[0]
    else:
        field, name = "model_type", fields.text("model_type")
    for family in FAMILIES:
        if name in (family.architecture, family.model_type):
            return family
    known = ", ".join(family.architecture for family in FAMILIES)
    raise InvalidInput(
        f"{fields.where}: {field} {name!r} is not a known architecture, give a model of {known}"
    )
