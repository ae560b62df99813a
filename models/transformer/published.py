"""Sizes of published models, to reckon and to time with; `models.pretrained` reads the models themselves."""

from models.transformer.config import Llama3Scaling, Rotary, TransformerConfig

QWEN_2_5_500M = TransformerConfig(
    vocab_size=151_936,
    width=896,
    num_layers=24,
    num_heads=14,
    num_key_value_heads=2,
    head_dim=64,
    hidden=4864,
    context=32_768,
    rotary=Rotary(theta=1e6),
    query_key_value_bias=True,
)
LLAMA_3_1_8B = TransformerConfig(
    vocab_size=128_256,
    width=4096,
    num_layers=32,
    num_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    hidden=14_336,
    context=131_072,
    rotary=Rotary(theta=5e5, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    norm_epsilon=1e-5,
    tied=False,
)
LLAMA_3_1_70B = TransformerConfig(
    vocab_size=128_256,
    width=8192,
    num_layers=80,
    num_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    hidden=28_672,
    context=131_072,
    rotary=Rotary(theta=5e5, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    norm_epsilon=1e-5,
    tied=False,
)
