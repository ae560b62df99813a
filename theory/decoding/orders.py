"""In which order libraries apply the rules, as data: the same parameters give different laws in different libraries.

`arrange(rules, LIBRARIES["llama.cpp"].order)` puts rules into a library's order, filters read sequentially;
`jointly` makes of it the other reading. The order is what is reproduced. Boundaries and ties are those of this house
everywhere; where a library's differ, `departs` says how.

Libraries change: each entry is what was seen at one time. `evidence` says how it is known.
"""

from typing import Literal, NamedTuple

MASKS = ("allowed", "min_tokens")
PENALTIES = ("repetition", "frequency", "presence")

# Reasons in `theory.decoding.pipeline`.
DEFAULT_ORDER = (
    *PENALTIES,
    *MASKS,
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "epsilon",
    "eta",
    "top_n_sigma",
    "typical",
)


class LibraryOrder(NamedTuple):
    """What a library does.

    Attributes:
        order: names of the rules, first to last; those it lacks are absent.
        filters: "sequential" if each filter sees the law that the one before it left, "joint" if all see the same.
        departs: where it differs from this house in more than the order; empty if nothing is known.
        evidence: "source" if its source was read, "second-hand" if the facts are from reports of others.
    """

    order: tuple[str, ...]
    filters: Literal["sequential", "joint", "unknown"]
    departs: str
    evidence: Literal["source", "second-hand"]


LIBRARIES: dict[str, LibraryOrder] = {
    "transformers": LibraryOrder(
        (
            "repetition",
            *MASKS,
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "typical",
            "epsilon",
            "eta",
        ),
        "sequential",
        "top-k keeps all ties of the k-th value; T = 0 is refused; top-p sums upwards from the "
        "least likely token and drops while the sum is at most 1 - p",
        "source",
    ),
    "vllm": LibraryOrder(
        ("min_tokens", *PENALTIES, "temperature", "min_p", "top_k", "top_p"),
        "sequential",
        "an early version of the v1 sampler was read, the place of min-p is second-hand; penalties "
        "count the prompt too; the sorting path keeps all ties of the k-th value, a later kernel "
        "exactly k (second-hand); T below 1e-5 is greedy; log probs are the model's by default",
        "source",
    ),
    "sglang": LibraryOrder(
        ("temperature", "allowed", *PENALTIES, "top_k", "top_p", "min_p"),
        "joint",
        "the plain path of an early version: top-p keeps a token unless the mass before it exceeds "
        "p, one more than needed at an exact hit; with min-p the fused path is sequential",
        "source",
    ),
    "llama.cpp": LibraryOrder(
        (*PENALTIES, "top_n_sigma", "top_k", "typical", "top_p", "min_p", "temperature"),
        "sequential",
        "temperature comes last, so filters see the law at temperature 1; DRY and XTC, which this "
        "house lacks, stand before top-n-sigma and before temperature",
        "second-hand",
    ),
    "tunix": LibraryOrder(
        ("temperature", "top_k", "top_p"),
        "sequential",
        "top-p keeps a token unless the mass before it exceeds p, one more than needed at an exact "
        "hit; T defaults to 0 and is divided by; log probs are those of the law before truncation",
        "source",
    ),
    "easydel": LibraryOrder(
        ("top_k", "top_p", "temperature", "min_p"),
        "unknown",
        "top-k keeps ties; greedy is a flag of the whole batch, so a row with T = 0 among others is "
        "divided by 0",
        "source",
    ),
    "maxtext": LibraryOrder(
        ("top_k", "top_p", "temperature"),
        "sequential",
        "the composite mode; T is at least 1e-6",
        "source",
    ),
}
