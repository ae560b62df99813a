"""`make bench-gpu`: how near decoding comes to what the memory of an accelerator allows, and what resampling costs there.

A transformer of the size of Qwen2.5-0.5B with random bfloat16 weights continues one prompt in 64 rows. Needs JAX, flax and this repository, nothing
that has to be installed beside them; made to end within eight minutes on one GPU, most of them compilation.

    python -m experiments.benchmarks.gpu [--quick]

prints JSON: bytes per second of a copy on the same device; the share of it that decoding reaches when only weights and the filled part of the
cache count (goal .6), with the sampling of tokens and without; and the time of SMC that resamples every 16 tokens over that of ancestral
sampling of as many rows (goal 1.1). It ends with 1 if a goal is missed. `--quick` is a small model and says nothing of speed.
"""

import argparse
import json
import sys

from experiments.benchmarks.unchecked_shapes import stand_in_for_jaxtyping


def main(arguments: list[str] | None = None) -> int:
    """Parse, measure and print.

    Args:
        arguments: of the command line.

    Returns:
        1 if a goal is missed at full size.
    """
    parser = argparse.ArgumentParser(description="Decoding and SMC on one accelerator, as JSON.")
    parser.add_argument("--quick", action="store_true", help="a small model, to see that it runs")
    quick: bool = parser.parse_args(arguments).quick
    stand_in_for_jaxtyping()
    # Only now: every module of ours imports jaxtyping.
    from experiments.benchmarks.accelerator import FULL, QUICK, measure

    found = measure(QUICK if quick else FULL)
    print(json.dumps(found, indent=2))
    return int(not quick and not (found["decode_goal_met"] and found["smc_goal_met"]))


if __name__ == "__main__":
    sys.exit(main())
