"""Independence Metropolis-Hastings: every proposal is a whole new sequence.

The spectral gap is 1 / max_y (pi(y) / q(y)) when the proposal is a law over whole sequences, and the total variation after n steps is at most
(1 - gap)^n.

Source: Hastings, Biometrika 57 (1970), for the kernel; Liu, Statistics and Computing 6 (1996), for the spectral gap; Mengersen & Tweedie,
Annals of Statistics 24 (1996), for the rate (all from memory).
"""

from theory.mcmc.chains import make_design
from theory.mcmc.cuts import start_cut
from theory.mcmc.suffix import suffix_kernel
from theory.protocols import Kernel


def independence(alpha: float, proposal_alpha: float) -> Kernel:
    """The kernel.

        log r = alpha (log p(y') - log p(y)) + log q(y) - log q(y')

    Args:
        alpha: exponent of the target, any real above 0.
        proposal_alpha: exponent of the proposal's next-token laws; 1 is the model itself.

    Returns:
        init(key, model, prompts) -> Chains; step(key, model, chains) -> (Chains, MoveInfo).

    Raises:
        InvalidInput: an exponent is not a positive finite number.
    """
    return suffix_kernel(make_design(alpha, proposal_alpha, start_cut()))
