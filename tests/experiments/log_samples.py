"""One record of every format, and ways to spoil a record."""

import copy
import random
from typing import Any

SAMPLES: dict[str, dict[str, Any]] = {
    "native": {"prompt_id": "p", "sample_id": 0, "answer": "4", "correct": True, "score": 0.5, "behavior_logp_tokens": [-1.0, -0.5]},
    "verl": {"input": "q", "output": "o", "gts": "4", "score": 1.0, "step": 1, "uid": "p_0_0", "acc": 1, "pred": "4"},
    "trl": {"step": 1, "prompt": "q", "completion": [{"role": "assistant", "content": "a"}], "advantage": 0.5, "reward_func": 1.0},
    "openrlhf": {"index": [7], "rewards": [0.5], "rollout_log_probs": [[-0.5, 0.0]], "action_mask": [[1, 0]], "truncated": [False]},
    "nemo-rl": {
        "content": ["q a"], "rewards": [0.5], "token_ids": [[1, 2, 3]], "token_loss_mask": [[0, 1, 1]],
        "generation_logprobs": [[0.0, -0.5, -1.0]], "sample_loss_mask": [1.0], "idx": 0,
    },
    "nemo-gym": {
        "responses_create_params": {"input": [{"role": "user", "content": "q"}]}, "reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 1,
        "response": {"model": "m", "output": [{"type": "message", "content": [{"text": "x"}], "generation_log_probs": [-1.0]}],
                     "usage": {"output_tokens": 1, "input_tokens": 2}},
    },
    "skyrl": {"input_prompt": "q", "output_response": "a", "score": 1.0, "stop_reason": "stop"},
    "verifiers": {
        "example_id": 1, "prompt": "q", "completion": [{"content": "a"}], "answer": "ref", "reward": 1.0, "is_truncated": False,
        "trajectory": [{"tokens": {"completion_logprobs": [-1.0], "completion_mask": [1]}}], "timing": {"total_ms": 5},
    },
    "prime-rl": {"traces": [{"task": {"key": "k"}, "nodes": [{"logprobs": [-1.0], "parent": None}], "rewards": {"a": {"score": 1.0, "weight": 1.0}}, "calls": [{"usage": {"completion_tokens": 3}}]}]},
    "tunix": {"group_id": "g", "trajectory_reward": "1.0", "old_logprobs": "[0.0, -1.0]", "conversation_masks": "[0, 1]", "status": "SUCCEEDED"},
    "inspect": {
        "id": 1, "epoch": 1, "input": "q", "target": "ref", "scores": {"match": {"value": "C", "answer": "4"}},
        "output": {"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{"logprob": -1.0}]}}]}, "model_usage": {"m": {"output_tokens": 3}},
    },
    "lm-eval": {"doc_id": 0, "resps": [["a", "b"]], "filtered_resps": ["4"], "filter": "none", "metrics": ["em"], "em": 1.0},
    "human-eval": {"task_id": "t", "completion": "x", "passed": True},
    "evalplus": {"eval": {"H/0": [{"solution": "x", "base_status": "pass"}, {"solution": "y", "base_status": "fail"}]}},
    "lighteval": {"doc": {"id": "d", "query": "q"}, "metric": {"em": 1.0}, "model_response": {"text": ["a"], "output_tokens": [[1, 2]]}},
    "search-and-learn": {"unique_id": "u", "completions": [r"\boxed{1}", "x"], "agg_scores": [0.5, 0.25], "scores": [[0.5], [0.25]]},
    "monkeys": {"prompt": "p", "samples": ["a", "b"], "is_correct": [True, False]},
    "openai": {"id": "r", "object": "o", "choices": [{"index": 0, "message": {"content": "x"}, "logprobs": {"content": [{"logprob": -1.0}]}}], "usage": {"completion_tokens": 1}},
}  # fmt: skip

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**63, 10**400, 0.5, -0.5, float("nan"), float("inf"), -9999.0, "", "x", "C", "\ud800", "\0", "1", [], [1],
    [None], [[]], [["x"]], ["x", 1], {}, {"a": 1}, {"value": []}, [{}], {"content": 3}, "length", "attachment://h", "[invalid]",
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []  # fmt: skip
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def spoiled(record: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy of a record with one to three places taken out or replaced, doubled, or given to one another."""
    record = copy.deepcopy(record)
    for _ in range(rng.randint(1, 3)):
        places = _places(record)
        if not places:
            return record
        container, key = rng.choice(places)
        action = rng.randrange(4)
        if action == 0:
            del container[key]
        elif action == 1:
            other, other_key = rng.choice(places)
            container[key] = copy.deepcopy(other[other_key])
        elif action == 2 and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[key] = copy.deepcopy(rng.choice(ODD))
    return record
