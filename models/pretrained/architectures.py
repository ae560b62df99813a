"""From the config.json of each published architecture to a `TransformerConfig`.

A field that is absent or null takes the value that `transformers` gives it, where that is the same for all models of the
architecture; sizes are never guessed. What a config asks for and the transformer lacks is refused, not left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from models.pretrained.json_fields import Fields
from models.transformer.config import Activation, Llama3Scaling, Rotary, TransformerConfig
from theory.errors import InvalidInput

# Under the names of config.json; the last three are one function.
ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def gpt2_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """GPT-2: learned positions, layer norms, biases everywhere, tied.

    Args:
        fields: of config.json.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    _refuse(fields, "add_cross_attention", False)
    _refuse(fields, "scale_attn_by_inverse_layer_idx", False)
    _refuse(fields, "scale_attn_weights", True)
    width, num_heads = fields.count("n_embd"), fields.count("n_head")
    return TransformerConfig(
        vocab_size=fields.count("vocab_size"),
        width=width,
        num_layers=fields.count("n_layer"),
        num_heads=num_heads,
        num_key_value_heads=num_heads,
        head_dim=_head_dim(fields, "n_embd", "n_head"),
        hidden=fields.count("n_inner", 4 * width),
        context=fields.count("n_positions"),
        rotary=None,
        norm="layer",
        norm_epsilon=fields.number("layer_norm_epsilon", 1e-5),
        activation=_activation(fields, "activation_function"),
        gated=False,
        query_key_value_bias=True,
        out_bias=True,
        perceptron_bias=True,
        tied=fields.flag("tie_word_embeddings", True),
        start_token=_start_token(fields, eos),
        eos=eos,
    )


def llama_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """Llama 2 and 3, and the many models that took their architecture over.

    Args:
        fields: of config.json.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    bias = fields.flag("attention_bias", False)
    return _rotary_config(
        fields,
        eos,
        num_key_value_heads=fields.count(
            "num_key_value_heads", fields.count("num_attention_heads")
        ),
        query_key_value_bias=bias,
        out_bias=bias,
        perceptron_bias=fields.flag("mlp_bias", False),
    )


def mistral_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """Mistral: a sliding window in every layer, or in none.

    Args:
        fields: of config.json, where `sliding_window` may be null but not absent.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    windows: tuple[int | None, ...] = ()
    if "sliding_window" not in fields.values:
        raise InvalidInput(
            f"{fields.where}: field sliding_window is missing, write its length in tokens or null"
        )
    if fields.has("sliding_window"):
        windows = (fields.count("sliding_window"),) * fields.count("num_hidden_layers")
    return _rotary_config(fields, eos, windows=windows)


def qwen2_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """Qwen 2 and 2.5: biases on queries, keys and values.

    Args:
        fields: of config.json.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    return _rotary_config(fields, eos, query_key_value_bias=True, windows=_qwen_windows(fields))


def qwen3_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """Qwen 3: normalised queries and keys, heads of a size of their own.

    Args:
        fields: of config.json.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    bias = fields.flag("attention_bias", False)
    return _rotary_config(
        fields,
        eos,
        head_dim=fields.count("head_dim"),
        query_key_norm=True,
        query_key_value_bias=bias,
        out_bias=bias,
        windows=_qwen_windows(fields),
    )


def gemma_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """Gemma: scaled embeddings, a GELU gate, tied. Its norms multiply by 1 + weight, which loading adds.

    Args:
        fields: of config.json.
        eos: tokens that end a text.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or asks for what is not supported.
    """
    _refuse(fields, "use_bidirectional_attention", False)
    bias = fields.flag("attention_bias", False)
    name = "hidden_activation" if fields.has("hidden_activation") else "hidden_act"
    activation = _activation(fields, name)
    return _rotary_config(
        fields,
        eos,
        head_dim=fields.count("head_dim"),
        # The first releases say "gelu" and were trained with the tanh form, which `transformers` takes too.
        activation="gelu_tanh" if activation == "gelu" else activation,
        query_key_value_bias=bias,
        out_bias=bias,
        tied=fields.flag("tie_word_embeddings", True),
        embedding_scale=float(fields.count("hidden_size")) ** 0.5,
    )


def _rotary_config(fields: Fields, eos: tuple[int, ...], **choices: Any) -> TransformerConfig:
    """What Llama and its descendants share; `choices` go before it."""
    shared: dict[str, Any] = {
        "vocab_size": fields.count("vocab_size"),
        "width": fields.count("hidden_size"),
        "num_layers": fields.count("num_hidden_layers"),
        "num_heads": fields.count("num_attention_heads"),
        "hidden": fields.count("intermediate_size"),
        "context": fields.count("max_position_embeddings"),
        "rotary": _rotary(fields),
        "norm_epsilon": fields.number("rms_norm_eps"),
        "start_token": _start_token(fields, eos),
        "eos": eos,
    }
    optional: dict[str, Callable[[], Any]] = {
        "num_key_value_heads": lambda: fields.count("num_key_value_heads"),
        "head_dim": lambda: _head_dim(fields, "hidden_size", "num_attention_heads"),
        "activation": lambda: _activation(fields, "hidden_act"),
        "tied": lambda: fields.flag("tie_word_embeddings", False),
    }
    filled = {name: read() for name, read in optional.items() if name not in choices}
    return TransformerConfig(**shared, **filled, **choices)


def _refuse(fields: Fields, name: str, supported: bool) -> None:
    """Refuse a switch in a position that is not supported."""
    if fields.flag(name, supported) != supported:
        raise InvalidInput(
            f"{fields.where}: {name} {str(not supported).lower()} is not supported, "
            f"give a model in which it is {str(supported).lower()}"
        )


def _head_dim(fields: Fields, width: str, num_heads: str) -> int:
    """The size of a head, by default the width shared out evenly."""
    if fields.has("head_dim"):
        return fields.count("head_dim")
    size, rest = divmod(fields.count(width), fields.count(num_heads))
    if rest:
        raise InvalidInput(
            f"{fields.where}: {width} {fields.count(width)} is not a multiple of {num_heads} {fields.count(num_heads)},"
            " add the field head_dim"
        )
    return size


def _activation(fields: Fields, name: str) -> Activation:
    """An activation under its name in config.json."""
    activation = fields.text(name)
    if activation not in ACTIVATIONS:
        raise InvalidInput(
            f"{fields.where}: {name} {activation!r} is not supported, give a model with one of {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[activation]


def _start_token(fields: Fields, eos: tuple[int, ...]) -> int:
    """The token that begins a text; families without one begin after the token that ends the text before."""
    if fields.has("bos_token_id"):
        return fields.whole("bos_token_id")
    return eos[0] if eos else 0


def _rotary(fields: Fields) -> Rotary:
    """Positions: `rope_parameters` since version 5 of transformers, before it rope_theta and rope_scaling."""
    if fields.has("rope_parameters"):
        rope = fields.inner("rope_parameters")
        theta = rope.number("rope_theta", 10_000.0)
    else:
        rope = fields.inner("rope_scaling")
        theta = fields.number("rope_theta", 10_000.0)
    for level in (fields, rope):
        if level.number("partial_rotary_factor", 1.0) != 1.0:
            raise InvalidInput(
                f"{level.where}: partial_rotary_factor below 1 is not supported, give a model that rotates whole heads"
            )
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind == "default":
        return Rotary(theta)
    if kind == "linear":
        return Rotary(theta, rope.number("factor"))
    if kind == "llama3":
        scaling = Llama3Scaling(
            factor=rope.number("factor"),
            low_frequency_factor=rope.number("low_freq_factor"),
            high_frequency_factor=rope.number("high_freq_factor"),
            original_context=rope.count("original_max_position_embeddings"),
        )
        return Rotary(theta, scaling)
    raise InvalidInput(
        f"{rope.where}: rope scaling of type {kind!r} is not supported, give a model with default, linear or llama3"
    )


def _qwen_windows(fields: Fields) -> tuple[int | None, ...]:
    """Windows of Qwen 2 and 3: those of `layer_types`, before version 5 of transformers of the upper layers."""
    num_layers = fields.count("num_hidden_layers")
    if not fields.flag("use_sliding_window", False) or not fields.has("sliding_window"):
        return ()
    window = fields.count("sliding_window")
    if fields.has("layer_types"):
        kinds = fields.values["layer_types"]
        if not isinstance(kinds, list) or len(kinds) != num_layers:
            raise fields.unfit("layer_types", f"a list of {num_layers}, one a layer")
    else:
        first = fields.whole("max_window_layers")
        kinds = [
            "sliding_attention" if layer >= first else "full_attention"
            for layer in range(num_layers)
        ]
    windows = {"sliding_attention": window, "full_attention": None}
    if unknown := [kind for kind in kinds if kind not in windows]:
        raise InvalidInput(
            f"{fields.where}: layer_types has {unknown[0]!r}, give a model with {' and '.join(windows)} only"
        )
    return tuple(windows[kind] for kind in kinds)
