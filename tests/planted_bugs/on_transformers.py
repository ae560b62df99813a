"""Wrong twins of what is said of power sampling on transformers: bounds of an enumeration, and how different replicates are."""

import numpy as np

from experiments.enumerated_truth import Bounds, Enumeration, mean_under, power_weights


def base_share_missing(found: Enumeration, values: np.ndarray) -> Bounds:
    """What is missing of the power law taken for the share that is missing of the base law."""
    known = mean_under(found, power_weights(found), values) * (1.0 - found.missing_p)
    return Bounds(known, known + found.missing_p)


def replicates_paired_with_themselves(tokens: np.ndarray, weights: np.ndarray) -> float:
    """All R^2 pairs of replicates, those of a replicate with itself among them, which agree more often."""
    _, which = np.unique(tokens.reshape(-1, tokens.shape[-1]), axis=0, return_inverse=True)
    mass = np.bincount(which.reshape(-1), weights.reshape(-1)) / len(tokens)
    return 1.0 - float((mass**2).sum())
