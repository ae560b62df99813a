"""Suffix regeneration on a reward-tilted target, p(y) exp(r(y) / b).

Source: QUEST (Faria et al. 2024) and QAlign (arXiv 2504.03790), read second-hand; with r = log p and b = 1/(alpha - 1) the target is the
power law.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int

from theory.errors import InvalidInput
from theory.mcmc.chains import make_design
from theory.mcmc.cuts import CutLaw
from theory.mcmc.suffix import suffix_kernel
from theory.protocols import Kernel, LogReward


def reward_tilted(
    reward: LogReward, scale: float, proposal_alpha: float, cut_law: CutLaw
) -> Kernel:
    """The kernel.

        log r = (reward(y') - reward(y)) / b + log p(y') - log p(y) + log q(suffix of y) - log q(suffix of y')
                + log c(m | y') - log c(m | y)

    With the model itself as the proposal the p and q terms cancel.

    Args:
        reward: of whole sequences; -inf forbids one. A chain may start on a forbidden sequence (`check_starts` refuses it) and then
            takes the first allowed proposal.
        scale: b, above 0; small b follows the reward, large b the model.
        proposal_alpha: exponent of the proposal's next-token laws; 1 is the model itself.
        cut_law: where to cut.

    Returns:
        init(key, model, prompts) -> Chains; step(key, model, chains) -> (Chains, MoveInfo).

    Raises:
        InvalidInput: the scale or the exponent is not a positive finite number.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise InvalidInput(f"reward scale {scale}: must be a finite number above 0")

    def log_reward(tokens: Int[Array, "B T"], lengths: Int[Array, " B"]) -> Float32[Array, " B"]:
        return reward(tokens, lengths).astype(jnp.float32) / scale

    return suffix_kernel(make_design(1.0, proposal_alpha, cut_law, log_reward))
