"""Decoder-only transformers that keep the protocol of `theory.protocols.SequenceModel`."""

from models.transformer.config import Llama3Scaling, Rotary, TransformerConfig, check_config
from models.transformer.decoder import Decoder
from models.transformer.full_pass import full_log_probs, full_token_log_probs
from models.transformer.model import (
    Transformer,
    TransformerState,
    from_decoder,
    random_transformer,
    with_horizon,
)

__all__ = [
    "Decoder",
    "Llama3Scaling",
    "Rotary",
    "Transformer",
    "TransformerConfig",
    "TransformerState",
    "check_config",
    "from_decoder",
    "full_log_probs",
    "full_token_log_probs",
    "random_transformer",
    "with_horizon",
]
