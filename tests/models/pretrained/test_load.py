"""What is the same however a folder is written: names, shards, versions of config.json, precision."""

import dataclasses
import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from models.pretrained.load import load_folder
from models.pretrained.own_format import save_folder
from models.pretrained.parameters import parameter_names
from models.pretrained.weight_files import WeightFiles
from models.transformer import Rotary, Transformer, random_transformer
from tests.models.pretrained.published import HORIZON, NAMES, PUBLISHED, loaded
from tests.models.transformer.families import CONFIGS
from theory.errors import InvalidInput

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@pytest.fixture
def copy(tmp_path: Path) -> Any:
    """Copies of published folders, to be changed."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(PUBLISHED / name, tmp_path / name))

    return make


def change_config(folder: Path, **fields: Any) -> None:
    """Set fields of config.json; ... removes."""
    content = json.loads((folder / CONFIG).read_text()) | fields
    kept = {name: value for name, value in content.items() if value is not ...}
    (folder / CONFIG).write_text(json.dumps(kept))


def assert_equal(model: Transformer, other: Transformer) -> None:
    """The same configuration and parameters, bit for bit."""
    assert model.config == other.config
    assert jax.tree.structure(model) == jax.tree.structure(other)
    for ours, theirs in zip(jax.tree.leaves(model), jax.tree.leaves(other), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_one_file_and_shards_are_the_same(copy: Any) -> None:
    folder = copy("llama2")
    tensors: dict[str, np.ndarray] = {}
    for shard in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(shard)
    save_file(tensors, folder / WEIGHTS)
    for shard in folder.glob("model*-of-*"):
        shard.unlink()
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama2").model)


def test_the_index_says_whose_tensor_counts(copy: Any) -> None:
    folder = copy("llama2")
    last = max(folder.glob("model*-of-*"))
    tensors = load_file(last)
    for shard in sorted(folder.glob("model*-of-*"))[:-1]:
        tensors |= {name: tensor + 1 for name, tensor in load_file(shard).items()}
    save_file(tensors, last)
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama2").model)


def test_the_first_gpt2_files_have_no_prefix_and_store_their_masks(copy: Any) -> None:
    folder = copy("gpt2")
    tensors = load_file(folder / WEIGHTS)
    assert all(name.startswith("transformer.") for name in tensors)
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for layer in range(2):
        bare[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 32, 32), np.uint8))
        bare[f"h.{layer}.attn.masked_bias"] = np.array(-1e4, np.float32)
    save_file(bare, folder / WEIGHTS)
    assert_equal(load_folder(folder, HORIZON).model, loaded("gpt2").model)


def test_the_first_llama_files_store_their_frequencies(copy: Any) -> None:
    folder = copy("llama3")
    tensors = load_file(folder / WEIGHTS)
    for layer in range(2):
        name = f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"
        tensors[name] = np.ones(4, np.float32)
    save_file(tensors, folder / WEIGHTS)
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama3").model)


@pytest.mark.parametrize("name", ["qwen2", "gemma", "llama3_scaled"])
def test_a_stored_head_that_is_the_embedding_is_no_conflict(name: str, copy: Any) -> None:
    folder = copy(name)
    tensors = load_file(folder / WEIGHTS)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    save_file(tensors, folder / WEIGHTS)
    assert_equal(load_folder(folder, HORIZON, "float32").model, loaded(name).model)


def test_old_and_new_config_say_the_same(copy: Any) -> None:
    folder = copy("llama3_scaled")
    config = json.loads((folder / CONFIG).read_text())
    assert "rope_parameters" not in config
    assert "head_dim" not in config
    rope = config["rope_scaling"] | {"rope_theta": config["rope_theta"]}
    change_config(folder, rope_scaling=..., rope_theta=..., rope_parameters=rope, head_dim=8)
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama3_scaled").model)
    rope["type"] = rope.pop("rope_type")
    theta = rope.pop("rope_theta")
    change_config(folder, rope_parameters=..., rope_scaling=rope, rope_theta=theta, head_dim=...)
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama3_scaled").model)
    change_config(folder, architectures=...)
    assert_equal(load_folder(folder, HORIZON).model, loaded("llama3_scaled").model)


def test_precision(copy: Any) -> None:
    def types(model: Transformer) -> tuple[Any, Any]:
        decoder = model.decoder()
        return decoder.blocks[1].attention.out[...].dtype, decoder.norm.scale[...].dtype

    half, single = jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32)
    assert types(load_folder(PUBLISHED / "gemma", HORIZON).model) == (half, single)
    assert types(load_folder(PUBLISHED / "llama3", HORIZON).model) == (single, single)
    assert types(loaded("gemma").model) == (single, single)
    rounded = load_folder(PUBLISHED / "llama3", HORIZON, "bfloat16").model
    assert types(rounded) == (half, single)
    exact = loaded("llama3").model
    for ours, theirs in zip(jax.tree.leaves(rounded), jax.tree.leaves(exact), strict=True):
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
    # float16 has more digits than bfloat16 keeps.
    folder = copy("llama3")
    tensors = load_file(folder / WEIGHTS)
    save_file({n: tensor.astype(np.float16) for n, tensor in tensors.items()}, folder / WEIGHTS)
    assert types(load_folder(folder, HORIZON).model) == (single, single)
    save_file({n: tensor.astype(np.float64) for n, tensor in tensors.items()}, folder / WEIGHTS)
    assert_equal(load_folder(folder, HORIZON).model, exact)


def test_stored_precision_loses_nothing(copy: Any) -> None:
    folder = copy("gemma")
    tensors = load_file(folder / WEIGHTS)
    tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].astype(np.float32)
    save_file(tensors, folder / WEIGHTS)
    assert_equal(load_folder(folder, HORIZON).model, loaded("gemma").model)


@pytest.mark.parametrize("name", ["gpt2", "llama2"])
def test_one_stored_tensor_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = WeightFiles.read
    alive: list[weakref.ref[np.ndarray]] = []

    def watched(self: WeightFiles, tensor: str, *part: Any) -> np.ndarray:
        assert [ref for ref in alive if ref() is not None] == [], "an earlier tensor is still held"
        array = read(self, tensor, *part)
        alive.append(weakref.ref(array))
        return array

    monkeypatch.setattr(WeightFiles, "read", watched)
    model = load_folder(PUBLISHED / name, HORIZON).model
    monkeypatch.undo()
    assert len(alive) >= len(jax.tree.leaves(model))
    assert_equal(model, loaded(name).model)


@pytest.mark.parametrize(
    ("generation", "config", "eos"),
    [
        (..., 2, (2,)),
        (..., [5, 2, 5], (5, 2)),
        (..., ..., ()),
        ({"eos_token_id": 7}, 2, (7,)),
        ({"eos_token_id": [7, 3]}, 2, (7, 3)),
        ({"eos_token_id": None}, 2, (2,)),
        ({}, 2, (2,)),
    ],
)
def test_eos(generation: Any, config: Any, eos: tuple[int, ...], copy: Any) -> None:
    folder = copy("llama3")
    (folder / "generation_config.json").unlink()
    if generation is not ...:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    change_config(folder, eos_token_id=config)
    assert load_folder(folder, HORIZON).model.eos == eos


def test_start_token(copy: Any) -> None:
    folder = copy("llama3")
    assert load_folder(folder, HORIZON).model.config.start_token == 1
    # Without a token that begins a text, one begins after the end of another.
    change_config(folder, bos_token_id=None)
    assert load_folder(folder, HORIZON).model.config.start_token == 2


def test_tokenizer() -> None:
    tokenizer = loaded("llama3").tokenizer
    assert tokenizer is not None
    text = "the model runs first"
    tokens = tokenizer.encode(text).ids
    assert 1 < len(tokens) < len(text)
    assert tokenizer.decode(tokens) == text
    assert loaded("llama2").tokenizer is None


def test_biases_that_llama_may_have(copy: Any) -> None:
    folder = copy("llama3")
    tensors = load_file(folder / WEIGHTS)
    sizes = {"self_attn.q": 32, "self_attn.k": 16, "self_attn.v": 16, "self_attn.o": 32}
    sizes |= {"mlp.gate": 48, "mlp.up": 48, "mlp.down": 32}
    numbers = np.random.default_rng(0)
    for layer in range(2):
        for part, size in sizes.items():
            bias = numbers.normal(size=size).astype(np.float32)
            tensors[f"model.layers.{layer}.{part}_proj.bias"] = bias
    save_file(tensors, folder / WEIGHTS)
    change_config(folder, attention_bias=True, mlp_bias=True)
    ours = parameter_names(load_folder(folder, HORIZON).model.params)
    theirs = {part: tensors[f"model.layers.1.{part}_proj.bias"] for part in sizes}
    inner = ours["blocks.1.attention.query_key_value_bias"]
    np.testing.assert_array_equal(inner[:, :2].reshape(-1), theirs["self_attn.q"])
    np.testing.assert_array_equal(inner[:, 2].reshape(-1), theirs["self_attn.k"])
    np.testing.assert_array_equal(inner[:, 3].reshape(-1), theirs["self_attn.v"])
    np.testing.assert_array_equal(ours["blocks.1.attention.out_bias"], theirs["self_attn.o"])
    np.testing.assert_array_equal(ours["blocks.1.perceptron.up_bias"][0], theirs["mlp.gate"])
    np.testing.assert_array_equal(ours["blocks.1.perceptron.up_bias"][1], theirs["mlp.up"])
    np.testing.assert_array_equal(ours["blocks.1.perceptron.down_bias"], theirs["mlp.down"])


@pytest.mark.parametrize("name", NAMES)
def test_published_models_survive_our_own_format(name: str, tmp_path: Path) -> None:
    model = loaded(name).model
    save_folder(tmp_path, model, {"task": "none"})
    again = load_folder(tmp_path)
    assert_equal(again.model, model)
    assert again.model.horizon == HORIZON
    assert again.about == {"task": "none"}
    assert load_folder(tmp_path, 3).model.horizon == 3


LINEAR = dataclasses.replace(CONFIGS["llama2"], rotary=Rotary(7.0, 3.0))


@pytest.mark.parametrize("name", [*CONFIGS, "linear"])
def test_every_choice_survives_our_own_format(name: str, tmp_path: Path) -> None:
    chosen = CONFIGS.get(name, LINEAR)
    config = dataclasses.replace(chosen, norm_epsilon=1e-5, context=48, hidden=20)
    model = random_transformer(jax.random.key(3), config, 7, jnp.bfloat16)
    save_folder(tmp_path / "a" / "b", model, {})
    assert_equal(load_folder(tmp_path / "a" / "b").model, model)
    first = (tmp_path / "a" / "b" / WEIGHTS).read_bytes()
    save_folder(tmp_path / "a" / "b", model, {})
    assert (tmp_path / "a" / "b" / WEIGHTS).read_bytes() == first


OWN_BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"widht": 16}, r"field widht is not one of a RolloutlabTransformer, remove it"),
    ({"norm": "batch"}, r'field norm is "batch", write rms or layer'),
    ({"gated": 1}, r"field gated is 1, write true or false"),
    ({"windows": [3, "x"]}, r'field windows is \[3, "x"\], write a list'),
    ({"windows": [3]}, r"windows: 1 of them for 2 layers, give one a layer"),
    ({"horizon": 0}, r"field horizon is 0, write a positive whole number"),
    ({"rotary": {"theta": 0}}, r"rotary: field theta is 0, write a positive number"),
    ({"rotary": {"theta": 7.0, "factor": 2}}, r"rotary: field factor is not one of a Rollout"),
    (
        {"rotary": {"theta": 7.0, "scaling": {"factor": 8.0, "low_freq_factor": 1.0}}},
        r"rotary: scaling: field low_freq_factor is not one of a Roll",
    ),
    ({"context": ...}, r"field context is missing, add it"),
]


@pytest.mark.parametrize(("fields", "line"), OWN_BROKEN)
def test_own_folders_are_checked(fields: dict[str, Any], line: str, tmp_path: Path) -> None:
    model = random_transformer(jax.random.key(3), CONFIGS["mistral"], 7)
    save_folder(tmp_path, model, {})
    change_config(tmp_path, **fields)
    with pytest.raises(InvalidInput, match=rf"config\.json: {line}"):
        load_folder(tmp_path)
