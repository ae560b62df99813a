"""Tiny random models in Hugging Face format, with the logits that `transformers` gives them.

The one program of the project that needs torch. It runs in an environment of its own, outside the checkout's:

    python3 -m venv /tmp/torchenv
    /tmp/torchenv/bin/pip install torch==2.13.0 transformers==5.24.0 tokenizers safetensors numpy
    /tmp/torchenv/bin/python tests/data/pretrained/make_fixtures.py

For each family it writes the folder `<family>/` and `logits/<family>.safetensors` with

    tokens   [sum of lengths] int32: the rows one after another
    lengths  [R] int32
    logits   [sum of lengths, V] float32: after each token, every row read by itself

The logits are those of the folder as it lies on disk, read back by `transformers` in float32.
"""

# pyright: basic, reportMissingImports=false, reportArgumentType=false
import json
import shutil
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
VOCAB_SIZE = 80
LENGTHS = (1, 7, 13, 24)

SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    # Large enough to be seen in the logits.
    "rms_norm_eps": 0.02,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # Short enough that of the four frequencies of a head one is kept, one blended and two divided.
    "original_max_position_embeddings": 16,
}


def gpt2() -> transformers.PreTrainedConfig:
    """Learned positions, LayerNorm, GELU, biases, tied embeddings, one matrix for q, k and v."""
    return transformers.GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_inner=None,
        n_positions=32,
        layer_norm_epsilon=0.02,
        bos_token_id=2,
        eos_token_id=2,
    )


def llama2() -> transformers.PreTrainedConfig:
    """As many key heads as query heads, an output matrix of its own."""
    return transformers.LlamaConfig(**SIZES, num_key_value_heads=4)


def llama3() -> transformers.PreTrainedConfig:
    """Shared key heads, a rope base of 500,000, two tokens that end a text."""
    sizes = SIZES | {"eos_token_id": [2, 5]}
    rope = {"rope_type": "default", "rope_theta": 500_000.0}
    return transformers.LlamaConfig(**sizes, num_key_value_heads=2, rope_parameters=rope)


def llama3_scaled() -> transformers.PreTrainedConfig:
    """Llama 3.1 and 3.2: rope frequencies stretched by wavelength, tied embeddings."""
    # The base of a long context, but small enough that a row of 24 tokens meets all frequencies.
    rope = {"rope_theta": 1_000.0} | LLAMA3_SCALING
    return transformers.LlamaConfig(
        **SIZES,
        num_key_value_heads=2,
        rope_parameters=rope,
        tie_word_embeddings=True,
    )


def qwen2() -> transformers.PreTrainedConfig:
    """Biases on q, k and v only, tied embeddings, a sliding window that is declared and switched off."""
    rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
    return transformers.Qwen2Config(
        **SIZES,
        num_key_value_heads=2,
        rope_parameters=rope,
        sliding_window=4,
        use_sliding_window=False,
        tie_word_embeddings=True,
    )


def qwen3() -> transformers.PreTrainedConfig:
    """Normalised queries and keys, heads wider than width / heads."""
    rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
    return transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=12, rope_parameters=rope
    )


def mistral() -> transformers.PreTrainedConfig:
    """A sliding window of 5 tokens, shorter than the rows."""
    return transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=5)


def gemma() -> transformers.PreTrainedConfig:
    """Embeddings times sqrt(width), norms with 1 + weight, GELU in the gate, one key head, wide heads."""
    return transformers.GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=12)


FAMILIES = {
    make.__name__: make
    for make in (gpt2, llama2, llama3, llama3_scaled, qwen2, qwen3, mistral, gemma)
}
SHARDED = {"llama2"}
BFLOAT16 = {"qwen2", "gemma"}
# As most published folders have it: rope_theta, rope_scaling and torch_dtype side by side, from transformers before 5.
OLD_CONFIG = {"llama3", "llama3_scaled", "qwen2", "mistral"}


@torch.no_grad()
def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Weights of such sizes that no tensor is without effect and that logits spread over several nats."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1 and name.endswith("bias"):
            value = 0.3 * noise
        elif parameter.ndim == 1:  # a norm: far from the neutral value, which is 0 for Gemma
            neutral = 0.0 if isinstance(model, transformers.GemmaForCausalLM) else 1.0
            value = neutral + 0.3 * noise
        elif "embed" in name or "wte" in name or "wpe" in name:
            value = 0.4 * noise
        else:
            value = noise * (2.0 if "lm_head" in name else 1.2) * 32**-0.5
        parameter.copy_(value)


def as_before_version_5(folder: Path) -> None:
    """Rewrite config.json in the form of older versions."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    if config.get("head_dim") == config["hidden_size"] // config["num_attention_heads"]:
        config.pop("head_dim")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_tokenizer(folder: Path) -> None:
    """A byte-pair tokenizer of VOCAB_SIZE tokens, learned from one sentence."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=["<pad>", "<s>", "</s>", "<unk>", "<step>", "<end>"],
        initial_alphabet=list("abcdefghijklmnopqrstuvwxyz0123456789+-*/=()., "),
        show_progress=False,
    )
    text = "every sampler first runs where the truth can be computed and then the same code runs on the model"
    tokenizer.train_from_iterator([text] * 4, trainer)
    assert tokenizer.get_vocab_size() <= VOCAB_SIZE
    tokenizer.save(str(folder / "tokenizer.json"))


def write_logits(folder: Path, path: Path, seed: int) -> None:
    """Read the folder back and write what it says of a few random rows."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    numbers = np.random.default_rng(seed)
    rows = [numbers.integers(0, VOCAB_SIZE, length) for length in LENGTHS]
    with torch.no_grad():
        logits = [model(torch.from_numpy(row)[None]).logits[0].numpy() for row in rows]
    tensors = {
        "tokens": np.concatenate(rows).astype(np.int32),
        "lengths": np.array(LENGTHS, np.int32),
        "logits": np.concatenate(logits),
    }
    save_file(tensors, path)
    print(f"{folder.name:14} logits {tensors['logits'].std():.2f} +- around their mean")


def main() -> None:
    """Write all families anew."""
    (HERE / "logits").mkdir(exist_ok=True)
    for seed, (family, make) in enumerate(FAMILIES.items()):
        folder = HERE / family
        shutil.rmtree(folder, ignore_errors=True)
        model = transformers.AutoModelForCausalLM.from_config(make())
        randomise(model, torch.Generator().manual_seed(seed))
        if family in BFLOAT16:
            model = model.to(torch.bfloat16)
        model.save_pretrained(folder, max_shard_size="40KB" if family in SHARDED else "1GB")
        if family in OLD_CONFIG:
            as_before_version_5(folder)
        if family == "llama3":
            write_tokenizer(folder)
        write_logits(folder, HERE / "logits" / f"{family}.safetensors", seed)


if __name__ == "__main__":
    main()
