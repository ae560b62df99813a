"""Token rules, drawing and distinct sequences: what the catalogue lists."""

from typing import Any

from tests.planted_bugs import decoding as planted
from tests.planted_bugs.damage import decoding as exact
from tests.planted_bugs.defect import (
    RELATIVE_BIAS,
    SHARE,
    TOTAL_VARIATION,
    Defect,
)
from tests.theory.decoding import reference
from tests.theory.decoding.laws import (
    transform_of,
)
from theory.decoding import (
    TokenRule,
    default_rules,
    min_p,
    presence,
    repetition,
    sample_tokens,
    temperature,
    token_counts,
    top_k,
    top_p,
)
from theory.decoding.block_race import draw_by_blocks
from theory.decoding.noise import exponential_from_bits
from theory.decoding.stochastic_beam import gumbels_given_max

RULES = "tests/theory/decoding/test_rules.py"
SAMPLE = "tests/theory/decoding/test_sample.py"
PIPELINE = "tests/theory/decoding/test_pipeline.py"
BLOCKS = "tests/theory/decoding/test_block_race.py"
BEAM = "tests/theory/decoding/test_stochastic_beam.py"


def _rule(
    kind: str,
    twin: Any,
    right: Any,
    pmf: list[float],
    parameter: float,
    definition: reference.Rule,
    damage: float,
    toy: str,
    *reports: str,
) -> Defect:
    measure = exact.of_rule(pmf, parameter, definition)
    test = f"{RULES}::test_planted_rules_are_caught"
    return Defect(
        kind, twin, transform_of(right), measure, damage, TOTAL_VARIATION, toy, test, reports
    )


def _top_k(k: float) -> TokenRule:
    return top_k(int(k))


NUCLEUS = ("Biohub/esm#360", "rasbt/reasoning-from-scratch#164", "fish-speech#1171", "C2C#21")
TIES = ("vllm#15478", "sglang#33539", "axlearn#1022")
HALF = [0.5, 0.25, 0.25]
TIED = [0.2, 0.4, 0.4]

DEFECTS = (
    _rule(
        "crossing token dropped by top-p",
        planted.top_p_drops_the_crossing_token,
        top_p,
        exact.FOUR,
        0.8,
        reference.top_p(0.8),
        0.222222,
        ".4 .3 .2 .1, p = .8",
        *NUCLEUS,
    ),
    _rule(
        "extra token at equality",
        planted.top_p_keeps_one_more_at_equality,
        top_p,
        HALF,
        0.5,
        reference.top_p(0.5),
        0.333333,
        ".5 .25 .25, p = .5",
        "transformers#18976",
        "ChatRWKV#170",
    ),
    _rule(
        "ties of the k-th value kept",
        planted.top_k_keeps_ties,
        _top_k,
        [0.1, 0.2, 0.2, 0.2, 0.3],
        3,
        reference.top_k(3),
        0.222222,
        ".1 .2 .2 .2 .3, k = 3",
        *TIES,
    ),
    _rule(
        "top-k off by one",
        planted.top_k_keeps_one_more,
        _top_k,
        exact.FOUR,
        1,
        reference.top_k(1),
        0.428571,
        ".4 .3 .2 .1, k = 1",
        "mesh-transformer-jax#164",
    ),
    _rule(
        "mask writes 0 for -inf",
        planted.min_p_writes_zero,
        min_p,
        [*HALF, 0, 0, 0, 0, 0],
        0.75,
        reference.min_p(0.75),
        0.933333,
        ".5 .25 .25 and five zeros, min-p .75",
        "sglang-jax#1563",
    ),
    _rule(
        "min-p relative to 1",
        planted.min_p_of_one,
        min_p,
        exact.FOUR,
        0.25,
        reference.min_p(0.25),
        0.3,
        ".4 .3 .2 .1, min-p .25",
    ),
    _rule(
        "greedy takes the last of ties",
        planted.greedy_takes_the_last_of_ties,
        temperature,
        TIED,
        0.0,
        reference.temperature(0.0),
        1.0,
        ".2 .4 .4, T = 0",
    ),
    _rule(
        "greedy shares ties",
        planted.greedy_shares_ties,
        temperature,
        TIED,
        0.0,
        reference.temperature(0.0),
        0.5,
        ".2 .4 .4, T = 0",
        "vllm#15478",
    ),
    Defect(
        "temperature 0 divides",
        planted.temperature_divides_first,
        transform_of(temperature),
        exact.without_a_law,
        1.0,
        SHARE,
        ".4 .3 .2 .1, T = 0",
        f"{RULES}::test_planted_rules_are_caught",
        ("slime#2197", "miles#2686"),
    ),
    Defect(
        "temperature after top-p",
        planted.top_p_before_temperature,
        default_rules,
        exact.of_pipeline(
            (temperature(2.0), top_p(0.7)),
            reference.in_sequence(reference.temperature(2.0), reference.top_p(0.7)),
        ),
        0.274804,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, T = 2, p = .7",
        f"{PIPELINE}::test_an_order_that_was_not_declared_is_another_law",
        ("llama.cpp#4091", "llama.cpp#3841", "textgen#4463"),
    ),
    Defect(
        "filters in sequence that were declared joint",
        planted.filters_one_after_the_other,
        default_rules,
        exact.of_pipeline(
            (top_k(2), top_p(0.5)), reference.side_by_side(reference.top_k(2), reference.top_p(0.5))
        ),
        0.428571,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, k = 2, p = .5",
        f"{PIPELINE}::test_an_order_that_was_not_declared_is_another_law",
        ("sglang-jax#1563",),
    ),
    Defect(
        "penalty on pads",
        planted.counts_with_pads,
        token_counts,
        exact.of_counts,
        0.229663,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, presence 1, two pads",
        f"{RULES}::test_pads_are_never_counted",
        ("TGI#1765", "transformers#36642"),
    ),
    Defect(
        "repetition divides negative logits",
        planted.repetition_divides_negative_logits,
        exact.penalty_of(repetition),
        exact.of_penalty(1.5, reference.repetition),
        0.23991,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, penalty 1.5",
        f"{RULES}::test_planted_penalties_are_caught",
    ),
    Defect(
        "presence counts every time",
        planted.presence_charges_every_time,
        exact.penalty_of(presence),
        exact.of_penalty(1.0, reference.presence),
        0.123544,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, penalty 1",
        f"{RULES}::test_planted_penalties_are_caught",
    ),
    Defect(
        "eos of -1 wraps",
        planted.mask_with_wrapped_index,
        exact.eos_mask,
        exact.of_absent_eos,
        0.1,
        SHARE,
        ".4 .3 .2 .1, eos -1",
        f"{RULES}::test_an_absent_eos_blocks_nothing",
        ("TensorRT-LLM#12358",),
    ),
    Defect(
        "NaN law where nothing is possible",
        planted.softmax_of_nothing,
        exact.log_law,
        exact.nan_rows,
        1.0,
        SHARE,
        "three impossible tokens",
        f"{PIPELINE}::test_a_plain_softmax_of_nothing_is_nan",
        ("MiniGPT-4#139",),
    ),
    Defect(
        "noise from 23 bits",
        planted.exponential_from_23_bits,
        exponential_from_bits,
        exact.of_tail,
        0.425,
        RELATIVE_BIAS,
        "noise of the uniform 2^-40",
        f"{SAMPLE}::test_the_noise_is_exponential_in_both_tails",
        ("vllm#43150", "jax#26974"),
    ),
    Defect(
        "log prob of the law before the rules",
        planted.reports_the_law_before_the_rules,
        sample_tokens,
        exact.of_record,
        0.3,
        RELATIVE_BIAS,
        ".4 .3 .2 .1, k = 2",
        f"{SAMPLE}::test_the_log_prob_of_the_untruncated_law_is_caught",
        ("vllm#13991",),
    ),
    Defect(
        "draws from the law before the rules",
        planted.draws_from_the_law_before_the_rules,
        sample_tokens,
        exact.of_law_drawn_from,
        0.3,
        TOTAL_VARIATION,
        ".4 .3 .2 .1, k = 2",
        f"{SAMPLE}::test_draws_from_the_untruncated_law_are_rejected",
    ),
    Defect(
        "one key for the batch",
        planted.one_key_for_the_batch,
        sample_tokens,
        exact.keys_without_effect,
        1.0,
        SHARE,
        "16 rows, 64 sets of keys",
        f"{SAMPLE}::test_a_key_of_the_whole_batch_is_caught",
        ("vllm#5898",),
    ),
    Defect(
        "beam with new Gumbels at each step",
        planted.gumbels_not_given_max,
        gumbels_given_max,
        exact.without_their_maximum,
        1.0,
        SHARE,
        "64 parents of five children",
        f"{BEAM}::test_gumbels_given_their_maximum",
    ),
    Defect(
        "distinct draws weighed as independent",
        planted.weights_without_threshold,
        exact.right_weights,
        exact.of_distinct_draws,
        0.1125,
        RELATIVE_BIAS,
        "two of three sequences",
        f"{BEAM}::test_wrong_weights_are_rejected",
    ),
    Defect(
        "threshold is the last draw's own score",
        planted.weights_by_own_threshold,
        exact.right_weights,
        exact.of_distinct_draws,
        1.09801,
        RELATIVE_BIAS,
        "two of three sequences",
        f"{BEAM}::test_wrong_weights_are_rejected",
    ),
    Defect(
        "one noise for both races",
        planted.one_noise_for_both_races,
        draw_by_blocks,
        exact.shared_noise,
        1.0,
        SHARE,
        "three blocks of tokens",
        f"{BLOCKS}::test_one_noise_for_both_races_is_rejected",
    ),
)
