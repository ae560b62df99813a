"""What each config.json says, field by field."""

from typing import Any

import pytest

from models.pretrained.architectures import ACTIVATIONS
from models.pretrained.families import find_family
from models.pretrained.json_fields import Fields, read_json
from models.transformer import Rotary, TransformerConfig
from tests.models.pretrained.published import PUBLISHED
from theory.errors import InvalidInput


def config_of(name: str, **fields: Any) -> TransformerConfig:
    """The configuration of a published config.json after changes; ... removes a field."""
    content = read_json(PUBLISHED / name / "config.json") | fields
    values = {field: value for field, value in content.items() if value is not ...}
    chosen = Fields("config.json", values)
    return find_family(chosen).config(chosen, ())


SLIDING = {"use_sliding_window": True, "sliding_window": 4}

# The published folder, what is changed in its config.json, and what the configuration then says.
SAYS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("gpt2", {}, {"hidden": 128, "rotary": None, "norm": "layer", "gated": False, "context": 32}),
    ("gpt2", {"n_inner": 100}, {"hidden": 100}),
    ("gpt2", {"layer_norm_epsilon": ...}, {"norm_epsilon": 1e-5}),
    ("gpt2", {"tie_word_embeddings": ...}, {"tied": True}),
    ("gpt2", {"tie_word_embeddings": False}, {"tied": False}),
    ("llama2", {}, {"num_key_value_heads": 4, "head_dim": 8, "hidden": 48, "context": 32}),
    ("llama2", {"num_key_value_heads": ...}, {"num_key_value_heads": 4}),
    ("llama2", {"tie_word_embeddings": ...}, {"tied": False}),
    ("llama2", {"tie_word_embeddings": True}, {"tied": True}),
    (
        "llama2",
        {"attention_bias": ..., "mlp_bias": ...},
        {"out_bias": False, "perceptron_bias": False},
    ),
    ("llama3", {"num_key_value_heads": ...}, {"num_key_value_heads": 4}),
    ("llama3", {"rope_theta": ...}, {"rotary": Rotary(10_000.0)}),
    ("llama3", {"rope_scaling": {"type": "linear", "factor": 4.0}}, {"rotary": Rotary(5e5, 4.0)}),
    ("qwen3", {"rope_parameters": {"rope_theta": 7.0}}, {"rotary": Rotary(7.0)}),
    ("qwen3", {"attention_bias": True}, {"query_key_value_bias": True, "out_bias": True}),
    ("qwen3", {"tie_word_embeddings": ...}, {"tied": False}),
    ("qwen2", {}, {"query_key_value_bias": True, "out_bias": False}),
    ("gemma", {"attention_bias": True}, {"query_key_value_bias": True, "out_bias": True}),
    ("gemma", {"hidden_size": 64}, {"embedding_scale": 8.0}),
    ("gemma", {"tie_word_embeddings": ...}, {"tied": True}),
    ("gemma", {"tie_word_embeddings": False}, {"tied": False}),
    ("gemma", {"hidden_act": "gelu"}, {"activation": "gelu_tanh"}),
    (
        "gemma",
        {"hidden_act": "silu", "hidden_activation": "gelu_fast"},
        {"activation": "gelu_tanh"},
    ),
    ("mistral", {}, {"windows": (5, 5)}),
    ("mistral", {"sliding_window": None}, {"windows": ()}),
    ("qwen2", {"use_sliding_window": False, "sliding_window": 4}, {"windows": ()}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": None}, {"windows": ()}),
    ("qwen2", SLIDING | {"max_window_layers": 0}, {"windows": (4, 4)}),
    ("qwen2", SLIDING | {"max_window_layers": 1}, {"windows": (None, 4)}),
    (
        "qwen3",
        SLIDING | {"layer_types": ["sliding_attention", "full_attention"]},
        {"windows": (4, None)},
    ),
]


@pytest.mark.parametrize(("name", "fields", "says"), SAYS)
def test_config(name: str, fields: dict[str, Any], says: dict[str, Any]) -> None:
    config = config_of(name, **fields)
    assert {field: getattr(config, field) for field in says} == says


def test_activations() -> None:
    tanh = {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"}
    for name, ours in ACTIVATIONS.items():
        assert config_of("llama3", hidden_act=name).activation == ours
        assert (ours == "gelu_tanh") == (name in tanh)
        assert (ours == "silu") == (name in {"silu", "swish"})


def test_part_of_a_head_is_not_rotated_anywhere() -> None:
    for name, fields in (
        ("llama3", {"partial_rotary_factor": 0.5}),
        ("llama3", {"rope_scaling": {"partial_rotary_factor": 0.5}}),
        ("qwen3", {"rope_parameters": {"partial_rotary_factor": 0.5}}),
    ):
        with pytest.raises(InvalidInput, match="partial_rotary_factor below 1 is not supported"):
            config_of(name, **fields)


@pytest.mark.parametrize("token", [-1, True, "1", 1.5])
def test_no_token_to_begin_with(token: Any) -> None:
    with pytest.raises(InvalidInput, match=r"bos_token_id is .*, write a whole number from 0 on"):
        config_of("llama3", bos_token_id=token)
