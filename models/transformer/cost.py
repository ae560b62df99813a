"""What a transformer costs, on paper: weights, cache, bytes and operations of a step, copies of a resampling.

Decoding reads all weights and the whole cache once a step and does little with them, so bytes over bandwidth is a lower bound of its time, and
close to it where rows are few. The functions count what this implementation does: attention runs over all places that a row has room for,
filled or not, windows included, and a resampling on an accelerator copies all rows if one changes. They leave out what is small beside that:
activations, logits, random numbers, launches.
"""

from typing import NamedTuple

from models.transformer.config import TransformerConfig


class Device(NamedTuple):
    """An accelerator as its vendor describes it.

    Attributes:
        memory: bytes.
        bandwidth: bytes per second between memory and processor, reads and writes together.
        flops: operations per second of a dense matrix product in the precision of the weights.
        link_bandwidth: bytes per second that it sends to the devices it holds a model with.
        latency: seconds of a sum over those devices, however small.
    """

    memory: float
    bandwidth: float
    flops: float
    link_bandwidth: float
    latency: float


# NVIDIA's figures for bfloat16 without sparsity and for NVLink one way; the latency is an assumption.
H200 = Device(141e9, 4.8e12, 989e12, 450e9, 10e-6)


class Workload(NamedTuple):
    """What the devices that hold one model together do at a time.

    Attributes:
        num_rows: rows (particles) of theirs.
        num_places: S, places of the cache in each: prompt and horizon.
        bytes_per_number: of weights and cache; 2 is bfloat16.
        num_head_shards: how many devices they are.
    """

    num_rows: int
    num_places: int
    bytes_per_number: int = 2
    num_head_shards: int = 1


def num_parameters(config: TransformerConfig) -> int:
    """All parameters.

    Args:
        config: sizes.

    Returns:
        Their number.
    """
    norm = config.width * (1 if config.norm == "rms" else 2)
    tables = config.vocab_size * (1 if config.tied else 2)
    tables += config.context if config.rotary is None else 0
    heads = config.num_heads + 2 * config.num_key_value_heads
    attention = (heads + config.num_heads) * config.head_dim * config.width
    attention += heads * config.head_dim * config.query_key_value_bias
    attention += config.width * config.out_bias
    attention += 2 * config.head_dim * config.query_key_norm
    num_up = 2 if config.gated else 1
    perceptron = (num_up + 1) * config.width * config.hidden
    perceptron += (num_up * config.hidden + config.width) * config.perceptron_bias
    layer = attention + perceptron + 2 * norm
    return tables * config.width + config.num_layers * layer + norm


def num_parameters_read(config: TransformerConfig) -> int:
    """Parameters that every step reads: all but the tables of which it looks up a line a row.

    Args:
        config: sizes.

    Returns:
        Their number; a tied embedding is the head and counts.
    """
    looked_up = 0 if config.tied else config.vocab_size
    looked_up += config.context if config.rotary is None else 0
    return num_parameters(config) - looked_up * config.width


def weight_bytes(config: TransformerConfig, work: Workload) -> int:
    """Memory of the weights, over all devices that hold them together.

    Args:
        config: sizes.
        work: for its bytes per number.

    Returns:
        Bytes.
    """
    return num_parameters(config) * work.bytes_per_number


def cache_bytes(config: TransformerConfig, work: Workload) -> int:
    """Memory of one row (particle): 2 L K D S numbers.

    Args:
        config: L layers of K key heads of D.
        work: S places.

    Returns:
        Bytes.
    """
    numbers = 2 * config.num_layers * config.num_key_value_heads * config.head_dim
    return numbers * work.num_places * work.bytes_per_number


def step_bytes(config: TransformerConfig, work: Workload) -> int:
    """What one decode step of all rows reads.

    Args:
        config: sizes.
        work: rows and places.

    Returns:
        Bytes.
    """
    weights = num_parameters_read(config) * work.bytes_per_number
    return weights + work.num_rows * cache_bytes(config, work)


def step_flops(config: TransformerConfig, work: Workload) -> int:
    """Operations of one decode step of all rows: 2 a weight that is read, and 4 L H D S of attention, for each row.

    Args:
        config: L layers of H heads of D.
        work: rows, S places.

    Returns:
        Additions and multiplications.
    """
    row = 2 * num_parameters_read(config) + work.num_places * _attention_flops(config)
    return work.num_rows * row


def prefill_flops(config: TransformerConfig, num_tokens: int) -> int:
    """Operations of reading a prompt, of which only the last token needs a law.

    Args:
        config: sizes.
        num_tokens: P; all of them attend to P places.

    Returns:
        Additions and multiplications for one prompt.
    """
    head = config.vocab_size * config.width
    token = 2 * (num_parameters_read(config) - head) + num_tokens * _attention_flops(config)
    return num_tokens * token + 2 * head


def resampling_bytes(config: TransformerConfig, work: Workload) -> int:
    """What one resampling of all rows moves: every row's cache, read and written.

    Args:
        config: sizes.
        work: rows and places.

    Returns:
        Bytes.
    """
    return 2 * work.num_rows * cache_bytes(config, work)


def step_seconds(config: TransformerConfig, work: Workload, device: Device) -> float:
    """A lower bound of the time of one decode step.

        max(bytes / bandwidth, operations / peak) + sums over devices

    where the first is divided by h devices, and the second is 2 L sums of B W numbers, of which a ring sends 2 (h - 1) / h from each device.

    Args:
        config: L layers of width W.
        work: B rows on h devices.
        device: each of them.

    Returns:
        Seconds.
    """
    shards = work.num_head_shards
    seconds = max(
        step_bytes(config, work) / shards / device.bandwidth,
        step_flops(config, work) / shards / device.flops,
    )
    if shards == 1:
        return seconds
    numbers = work.num_rows * config.width
    sent = 2 * (shards - 1) / shards * numbers * work.bytes_per_number
    return seconds + 2 * config.num_layers * (sent / device.link_bandwidth + device.latency)


def resampling_seconds(config: TransformerConfig, work: Workload, device: Device) -> float:
    """A lower bound of the time of one resampling of all rows; nothing is sent, populations stay where they are.

    Args:
        config: sizes.
        work: rows on the devices that hold one model.
        device: each of them.

    Returns:
        Seconds.
    """
    return resampling_bytes(config, work) / work.num_head_shards / device.bandwidth


def most_rows(config: TransformerConfig, work: Workload, device: Device) -> int:
    """Rows for which there is memory beside the weights, a tenth of it left free.

    A sampler that keeps an old state beside the new one (a Metropolis step, a gather of all rows) has room for half as many.

    Args:
        config: sizes.
        work: places, precision and devices; its rows are not read.
        device: each of them.

    Returns:
        Rows; 0 where not even the weights fit.
    """
    free = 0.9 * device.memory * work.num_head_shards - weight_bytes(config, work)
    return max(0, int(free // cache_bytes(config, work)))


def _attention_flops(config: TransformerConfig) -> int:
    """Of one token and one place, over all layers: a product with its key and one with its value in each head."""
    return 4 * config.num_layers * config.num_heads * config.head_dim
