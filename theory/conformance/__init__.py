"""The laws of `SequenceModel`, put to any model.

A kernel certified on a table is certified on a transformer only if both keep the protocol. The reference is
the model's own walk: init, then one step per token. Everything else a model can do is compared with it, through what
can be observed: the laws that a state gives when it is stepped and rewound.
"""

from typing import Any

import numpy as np
from jaxtyping import Int

from theory.conformance.laws import LAWS
from theory.conformance.walk import Case, ConformanceError, prepare, walk_through
from theory.protocols import SequenceModel

__all__ = ["ConformanceError", "check_sequence_model"]


def check_sequence_model(
    model: SequenceModel[Any],
    prompts: Int[np.ndarray, "B P"],
    prompt_lengths: Int[np.ndarray, " B"],
    tokens: Int[np.ndarray, "B S"],
    lengths: Int[np.ndarray, " B"],
    tolerance: float,
) -> None:
    """Put a model through every law of `SequenceModel`.

    The laws are checked from the plainest to the most composite, so that the first that fails names the defect.

    Args:
        model: any sequence model.
        prompts: [B, P] prompts that the model can read, of different lengths.
        prompt_lengths: [B] from 0 to P.
        tokens: [B, S] what follows them, of different lengths; eos may only stand last. The check is complete if one
            row ends with eos and another one reaches the horizon.
        lengths: [B] from 0 to S.
        tolerance: largest difference of two log probabilities that should be the same, in nats.

    Raises:
        ConformanceError: the model breaks a law; the message begins with the law and names the row.
        ValueError: the inputs could not show that it does.
    """
    case = prepare(Case(model, prompts, prompt_lengths, tokens, lengths, tolerance))
    walk = walk_through(case)
    for law in LAWS:
        law(case, walk)
