"""The table of a small transformer: every law that it can give."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.constructors import tree_from_log_rows
from models.transformer import Transformer, TransformerConfig, full_log_probs, random_transformer
from theory.exact.context_table import ContextTable

CONFIG = TransformerConfig(
    vocab_size=4,
    width=16,
    num_layers=2,
    num_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    hidden=24,
    context=16,
    windows=(2, None),
    eos=(2,),
)


def small(horizon: int = 4) -> Transformer:
    """A transformer that can be tabulated; its laws are far from uniform and from each other."""
    model = random_transformer(jax.random.key(3), CONFIG, horizon)
    params = jax.tree.map(lambda leaf: 1.2 * leaf, model.params)
    return Transformer(params, model.graph, model.config, horizon)


def tabulate(model: Transformer, prompt: tuple[int, ...]) -> ContextTable:
    """All next-token laws after a prompt, by forward passes over whole rows."""
    alive = [token for token in range(model.vocab_size) if token not in model.eos]
    prefixes = [
        prefix
        for length in range(model.horizon)
        for prefix in itertools.product(alive, repeat=length)
    ]
    begin = prompt or (model.config.start_token,)
    width = len(begin) + model.horizon
    tokens = np.zeros((len(prefixes), width), np.int32)
    lengths = np.array([len(begin) + len(prefix) for prefix in prefixes])
    for row, prefix in enumerate(prefixes):
        tokens[row, : lengths[row]] = begin + prefix
    laws = jax.jit(full_log_probs)(model, jnp.asarray(tokens), jnp.asarray(lengths))
    last = np.asarray(laws, np.float64)[np.arange(len(prefixes)), lengths - 1]
    rows = {
        prefix: law - np.log(np.exp(law).sum()) for prefix, law in zip(prefixes, last, strict=True)
    }
    return tree_from_log_rows(rows, model.vocab_size, model.eos, model.horizon)
