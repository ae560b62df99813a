"""Every kernel that is validated, by name."""

from typing import NamedTuple

from experiments.validation.cases import ALPHA, Build
from experiments.validation.markov import (
    blockwise_check,
    suffix_check,
    tempering_check,
)
from experiments.validation.markov_kernels import SUFFIX_KERNELS
from experiments.validation.populations import conditional_check, sequential_check
from experiments.validation.samplers import SAMPLERS
from experiments.validation.schemes import SCHEMES, scheme_check
from experiments.validation.tokens import (
    PIPELINES,
    RULES,
    distinct_check,
    generation_check,
    rule_check,
)
from experiments.validation.weighted import importance_check, rejection_check


class Entry(NamedTuple):
    """A kernel.

    Attributes:
        family: of the rows and of the figure.
        build: looks it up and makes its check.
    """

    family: str
    build: Build


QUICK = (
    *RULES,
    "generate",
    "generate-presence",
    "stochastic-beam",
    "importance-temperature",
    "rejection",
    "systematic",
    "multinomial",
    "killing",
    "chopthin",
    "conditional-systematic",
    "conditional-stratified",
    "suffix-mh",
    "multiple-try-mh",
    "smc",
    "smc-ess-adaptive",
    "adapted-smc",
    "bridged-smc",
    "twisted-smc",
    "conditional-smc",
)
"""What the quick preset runs: of kernels that are made from the same pieces one stands for the others."""

QUICK_CASES = ("toy-e", "random-tree", "toy-b")

FAMILIES = ("decoding", "generation", "importance", "rejection", "resampling", "mcmc", "smc")

KERNELS: dict[str, Entry] = {
    **{name: Entry("decoding", rule_check(name, rule)) for name, rule in RULES.items()},
    **{name: Entry("generation", generation_check(name, rule)) for name, rule in PIPELINES.items()},
    "stochastic-beam": Entry("generation", distinct_check("stochastic-beam")),
    "importance-base": Entry("importance", importance_check("importance-base", 1.0)),
    "importance-temperature": Entry(
        "importance", importance_check("importance-temperature", ALPHA)
    ),
    "rejection": Entry("rejection", rejection_check("rejection")),
    **{name: Entry("resampling", scheme_check(name, each)) for name, each in SCHEMES.items()},
    **{name: Entry("mcmc", suffix_check(name, each)) for name, each in SUFFIX_KERNELS.items()},
    "blockwise-mh": Entry("mcmc", blockwise_check("blockwise-mh")),
    "parallel-tempering": Entry("mcmc", tempering_check("parallel-tempering")),
    **{name: Entry("smc", sequential_check(name, each)) for name, each in SAMPLERS.items()},
    "conditional-smc": Entry("smc", conditional_check("conditional-smc")),
}
