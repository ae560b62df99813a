"""Every way in which a folder is broken has its line: the file, the field or tensor, and the mend."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.pretrained.load import load_folder
from tests.models.pretrained.breaks import (
    CONFIG,
    INDEX,
    WEIGHTS,
    Break,
    biased,
    fewer_layers,
    holding,
    in_json,
    in_weights,
    layer_without_name,
    other_head,
    pickled,
    quantised,
    reshaped,
    short_head,
    with_bytes,
    without,
)
from tests.models.pretrained.published import PUBLISHED
from theory.errors import InvalidInput

SCALING: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0}
SHARD = "model-00002-of-00003.safetensors"

# The published folder, what breaks it, and the line after the folder's path.
BROKEN: dict[str, tuple[str, Break, str]] = {
    "no config": ("llama3", without(CONFIG), "/config.json: no such file, copy"),
    "config not JSON": (
        "llama3",
        with_bytes(CONFIG, lambda content: content[:-40]),
        r"/config.json: line \d+ is not JSON \(.*\), copy",
    ),
    "config a list": (
        "llama3",
        with_bytes(CONFIG, lambda _: b"[1]"),
        "/config.json: is not a JSON object, copy",
    ),
    "config not text": (
        "llama3",
        with_bytes(CONFIG, lambda _: b"\xff\xff\xff"),
        "/config.json: byte 0 is not UTF-8, copy",
    ),
    "config without end": (
        "llama3",
        with_bytes(CONFIG, lambda _: b"[" * 100_000),
        "/config.json: is nested too deeply or has too long a number, copy",
    ),
    "number without end": (
        "llama3",
        with_bytes(CONFIG, lambda _: b'{"vocab_size": %s}' % (b"9" * 5000)),
        "/config.json: is nested too deeply or has too long a number, copy",
    ),
    "number beyond float32": (
        "llama3",
        in_json(CONFIG, rms_norm_eps=1e299),
        "/config.json: field rms_norm_eps is 1e\\+299, write a positive number that float32 holds",
    ),
    "more layers than tensors": (
        "llama3",
        in_json(CONFIG, num_hidden_layers=10**6),
        "/config.json: asks for 1000000 layers, and ",
    ),
    "a weight that is no number": (
        "llama3",
        holding(np.nan),
        "/model.safetensors: tensor model.layers.1.mlp.up_proj.weight: holds a NaN, an infinity or",
    ),
    "a weight without end": (
        "llama3",
        holding(-np.inf),
        "/model.safetensors: tensor model.layers.1.mlp.up_proj.weight: holds a NaN, an infinity or",
    ),
    "a task that is no name": (
        "llama3",
        in_json(CONFIG, about={"task": 5}),
        "/config.json: about: field task is 5, write a string",
    ),
    "no architecture": (
        "llama3",
        in_json(CONFIG, architectures=None, model_type=None),
        "/config.json: field model_type is missing, add",
    ),
    "unknown architecture": (
        "llama3",
        in_json(CONFIG, architectures=["MixtralForCausalLM"]),
        "/config.json: architectures 'MixtralForCausalLM' is not a known architecture, give a model of GPT2LMHeadModel, Llama",
    ),
    "missing field": (
        "llama3",
        in_json(CONFIG, num_hidden_layers=None),
        "/config.json: field num_hidden_layers is missing, add",
    ),
    "field of the wrong kind": (
        "llama3",
        in_json(CONFIG, hidden_size="32"),
        '/config.json: field hidden_size is "32", write a positive whole number',
    ),
    "heads that do not fit": (
        "llama3",
        in_json(CONFIG, num_key_value_heads=3),
        "/config.json: num_key_value_heads 3: must divide num_heads 4",
    ),
    "width that does not fit": (
        "llama3",
        in_json(CONFIG, num_attention_heads=5),
        "/config.json: hidden_size 32 is not a multiple of num_attention_heads 5, add the field head_dim",
    ),
    "unsupported activation": (
        "llama3",
        in_json(CONFIG, hidden_act="relu2"),
        "/config.json: hidden_act 'relu2' is not supported, give a model with one of silu, ",
    ),
    "unsupported rope scaling": (
        "llama3_scaled",
        in_json(CONFIG, rope_scaling=SCALING),
        "/config.json: rope_scaling: rope scaling of type 'yarn' is not supported, give a model with default, ",
    ),
    "unsupported rope scaling, new form": (
        "qwen3",
        in_json(CONFIG, rope_parameters=SCALING),
        "/config.json: rope_parameters: rope scaling of type 'yarn' is not supported, give",
    ),
    "incomplete rope scaling": (
        "llama3_scaled",
        in_json(CONFIG, rope_scaling={"rope_type": "llama3", "factor": 8.0}),
        "/config.json: rope_scaling: field low_freq_factor is missing, add",
    ),
    "partial rotation": (
        "llama3",
        in_json(CONFIG, partial_rotary_factor=0.5),
        "/config.json: partial_rotary_factor below 1 is not supported, give",
    ),
    "window left open": (
        "mistral",
        in_json(CONFIG, sliding_window=None),
        "/config.json: field sliding_window is missing, write its length in tokens or null",
    ),
    "scaled by layer": (
        "gpt2",
        in_json(CONFIG, scale_attn_by_inverse_layer_idx=True),
        "/config.json: scale_attn_by_inverse_layer_idx true is not supported, give",
    ),
    "unscaled attention": (
        "gpt2",
        in_json(CONFIG, scale_attn_weights=False),
        "/config.json: scale_attn_weights false is not supported, give",
    ),
    "both directions": (
        "gemma",
        in_json(CONFIG, use_bidirectional_attention=True),
        "/config.json: use_bidirectional_attention true is not supported, give",
    ),
    "layers of an unknown kind": (
        "qwen3",
        in_json(
            CONFIG,
            use_sliding_window=True,
            sliding_window=4,
            layer_types=["full_attention", "linear_attention"],
        ),
        "/config.json: layer_types has 'linear_attention', give a model with sliding_attention and full_attention",
    ),
    "quantised config": (
        "llama3",
        in_json(CONFIG, quantization_config={"quant_method": "gptq"}),
        "/config.json: quantization_config: quantised weights are not supported, give",
    ),
    "quantised tensor": (
        "llama3",
        in_weights(quantised),
        "/model.safetensors: tensor model.layers.1.mlp.up_proj.weight: is of type I8, quantised weights .* give",
    ),
    "eos beyond the vocabulary": (
        "llama3",
        in_json("generation_config.json", eos_token_id=[2, 80]),
        r"/generation_config.json: field eos_token_id is \[2, 80\], write a token id below the vocab_size of 80",
    ),
    "eos as text": (
        "llama3",
        in_json("generation_config.json", eos_token_id="</s>"),
        '/generation_config.json: field eos_token_id is "</s>", write a token id',
    ),
    "eos as truth": (
        "llama3",
        in_json("generation_config.json", eos_token_id=[True]),
        r"/generation_config.json: field eos_token_id is \[true\], write a token id",
    ),
    "no weights": (
        "llama3",
        without(WEIGHTS),
        ": holds neither model.safetensors nor model.safetensors.index.json, copy",
    ),
    "pickled weights": (
        "llama3",
        pickled,
        r": weights are pickled \(pytorch_model.bin\) .*, save them anew",
    ),
    "cut short": (
        "llama3",
        with_bytes(WEIGHTS, lambda content: content[:-100]),
        r"/model.safetensors: is cut short or damaged \(.*\), copy",
    ),
    "empty file": (
        "llama3",
        with_bytes(WEIGHTS, lambda _: b""),
        r"/model.safetensors: is cut short or damaged \(.*\), copy",
    ),
    "a page of HTML": (
        "llama3",
        with_bytes(WEIGHTS, lambda _: b"<!DOCTYPE html><html><body>Sign in</body></html>"),
        r"/model.safetensors: is cut short or damaged \(.*\), copy",
    ),
    "missing shard": (
        "llama2",
        without(SHARD),
        f"/{SHARD}: is missing, {INDEX} expects \\d+ tensors there, copy",
    ),
    "damaged shard": (
        "llama2",
        with_bytes(SHARD, lambda content: content[:-1]),
        f"/{SHARD}: is cut short or damaged",
    ),
    "shard of another model": (
        "llama2",
        lambda folder: shutil.copy(PUBLISHED / "gpt2" / WEIGHTS, folder / SHARD),
        f"/{SHARD}: lacks tensor model.layers.*, which {INDEX} expects there, copy",
    ),
    "index without a map": (
        "llama2",
        in_json(INDEX, weight_map=None),
        f"/{INDEX}: field weight_map names no shards, copy",
    ),
    "index that leads elsewhere": (
        "llama2",
        in_json(INDEX, weight_map={"model.norm.weight": "../gemma/model.safetensors"}),
        f"/{INDEX}: field weight_map has '../gemma/model.safetensors' for tensor model.norm.weight, write",
    ),
    "missing tensors": (
        "llama3",
        in_weights(fewer_layers),
        ": lacks tensors model.layers.1.input_layernorm.weight, .* and 5 more, copy",
    ),
    "missing tensor": (
        "llama3",
        in_weights(lambda tensors: tensors.pop("model.norm.weight")),
        ": lacks tensor model.norm.weight, copy",
    ),
    "misnamed tensor": (
        "llama3",
        in_weights(layer_without_name),
        ": lacks tensor model.layers.1.self_attn.q_proj.weight, copy",
    ),
    "unexpected tensors": (
        "llama3",
        in_weights(biased),
        ": holds tensors model.layers.0.self_attn.k_proj.bias, .* and 4 more, for which config.json has no place, copy",
    ),
    "fewer layers in the config": (
        "llama3",
        in_json(CONFIG, num_hidden_layers=1),
        ": holds tensors model.layers.1.input_layernorm.weight, .* and 5 more, for which",
    ),
    "shape mismatch": (
        "llama3",
        in_weights(reshaped),
        r"/model.safetensors: tensor model.layers.0.self_attn.k_proj.weight: has shape \(32, 16\) and .* \(16, 32\), copy",
    ),
    "another vocabulary": (
        "llama3",
        in_json(CONFIG, vocab_size=79),
        r"/model.safetensors: tensor model.embed_tokens.weight: has shape \(80, 32\) and .* \(79, 32\), copy",
    ),
    "untied without a head": (
        "llama3_scaled",
        in_json(CONFIG, tie_word_embeddings=False),
        ": lacks tensor lm_head.weight, and tie_word_embeddings is false in config.json, set it to true",
    ),
    "tied with another head": (
        "llama3_scaled",
        in_weights(other_head),
        "/model.safetensors: tensor lm_head.weight: differs from model.embed_tokens.weight, and .* is true .* set it",
    ),
    "tied with a shorter head": (
        "llama3_scaled",
        in_weights(short_head),
        "/model.safetensors: tensor lm_head.weight: differs from model.embed_tokens.weight, and",
    ),
    "tokenizer not JSON": (
        "llama3",
        with_bytes("tokenizer.json", lambda content: content[:99]),
        r"/tokenizer.json: is not a tokenizer \(.*\), copy",
    ),
    "tokenizer of another model": (
        "mistral",
        lambda folder: (folder / "tokenizer.json").write_text(
            (PUBLISHED / "llama3" / "tokenizer.json").read_text().replace('": 79', '": 80')
        ),
        "/tokenizer.json: has token 80 and the model's vocab_size is 80, copy",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_each_kind_has_its_line(kind: str, tmp_path: Path) -> None:
    name, break_it, line = BROKEN[kind]
    folder = tmp_path / name
    shutil.copytree(PUBLISHED / name, folder)
    break_it(folder)
    with pytest.raises(InvalidInput) as error:
        load_folder(folder, 4)
    message = str(error.value)
    assert "\n" not in message
    assert re.match(re.escape(str(folder)) + line, message), message


def test_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", PUBLISHED / "llama3" / CONFIG):
        with pytest.raises(InvalidInput, match=r"no such folder, give the path of a model folder"):
            load_folder(path, 4)


def test_no_horizon() -> None:
    with pytest.raises(
        InvalidInput, match=r"config\.json: names no horizon, give .*--max-new-tokens"
    ):
        load_folder(PUBLISHED / "llama3")
    with pytest.raises(InvalidInput, match=r"horizon 0: must be at least 1"):
        load_folder(PUBLISHED / "llama3", 0)
