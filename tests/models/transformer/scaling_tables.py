"""The tables of docs/scaling.md, from the functions that the document explains."""

from collections.abc import Sequence

from models.transformer.config import TransformerConfig
from models.transformer.cost import (
    H200,
    Workload,
    cache_bytes,
    most_rows,
    num_parameters,
    prefill_flops,
    resampling_seconds,
    step_flops,
    step_seconds,
    weight_bytes,
)
from models.transformer.published import LLAMA_3_1_8B, LLAMA_3_1_70B, QWEN_2_5_500M

PLACES, PROMPT, NEW, BLOCK, PARTICLES = 1024, 512, 512, 32, 100_000
MODELS = {"Qwen2.5-0.5B": QWEN_2_5_500M, "Llama 3.1 8B": LLAMA_3_1_8B, "70B": LLAMA_3_1_70B}
LAYOUTS = (("Qwen2.5-0.5B", 1), ("Llama 3.1 8B", 1), ("70B", 2), ("70B", 8))


def half_full(config: TransformerConfig, shards: int) -> Workload:
    """As many rows as leave room for a second copy of their caches."""
    work = Workload(1, PLACES, num_head_shards=shards)
    return work._replace(num_rows=most_rows(config, work, H200) // 2)


def sizes() -> str:
    """Weights, and what a particle takes."""
    work = Workload(1, PLACES)
    return table(
        ("model", "parameters", "weights", "a particle", "operations a token"),
        [
            (
                name,
                f"{num_parameters(config) / 1e9:.2f} G",
                f"{weight_bytes(config, work) / 1e9:.1f} GB",
                f"{cache_bytes(config, work) / 1e6:.1f} MB",
                f"{step_flops(config, work) / 1e9:.1f} G",
            )
            for name, config in MODELS.items()
        ],
    )


def speeds() -> str:
    """Lower bounds of times on H200s."""
    rows: list[Sequence[str]] = []
    for name, shards in LAYOUTS:
        config = MODELS[name]
        few, many = Workload(64, PLACES, num_head_shards=shards), half_full(config, shards)
        speed = [work.num_rows / step_seconds(config, work, H200) / shards for work in (few, many)]
        prompt = prefill_flops(config, PROMPT) / shards / H200.flops
        copy = resampling_seconds(config, many, H200)
        rows.append(
            (
                name,
                str(shards),
                f"{speed[0]:,.0f}",
                f"{many.num_rows:,}",
                f"{speed[1]:,.0f}",
                f"{1e3 * prompt:.1f} ms",
                f"{1e3 * copy:.0f} ms",
            )
        )
    header = ("model", "GPUs", "tokens/s a GPU, 64 rows", "rows that fit twice")
    return table((*header, "tokens/s a GPU, that many", "prompt", "resampling"), rows)


def many_particles() -> str:
    """100,000 particles as islands."""
    rows: list[Sequence[str]] = []
    for name, shards in LAYOUTS:
        config = MODELS[name]
        island = half_full(config, shards)
        islands = -(-PARTICLES // island.num_rows)
        tokens = NEW * step_seconds(config, island, H200)
        copies = (NEW // BLOCK - 1) * resampling_seconds(config, island, H200)
        held = PARTICLES * cache_bytes(config, island)
        rows.append(
            (
                name,
                f"{held / 1e12:.1f} TB",
                f"{islands} x {island.num_rows:,}",
                f"{islands * shards:,}",
                f"{tokens:.1f} s",
                f"{copies:.2f} s",
                f"{copies / tokens:.0%}",
            )
        )
    header = ("model", "caches", "islands x particles", "GPUs", "tokens", "resamplings")
    return table((*header, "of the tokens' time"), rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
