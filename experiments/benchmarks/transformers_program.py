"""GPT-2 in the transformers package, sampling on the CPU. Runs in the peer's environment, not in ours; see `peers` for how it is talked to.

Written as its users would: `generate` with its key-value cache, sampling at temperature 1 without truncation, inference mode, all prompts in one batch.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
import time


def main() -> None:
    """Save random weights, then answer until the input ends."""
    import torch
    import transformers

    problem = json.loads(sys.stdin.readline())
    torch.manual_seed(0)
    config = transformers.GPT2Config(**problem["config"])
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(problem["folder"])
    prompts = torch.tensor(problem["prompts"])
    mask = torch.ones_like(prompts)
    new = problem["new_tokens"]

    def run() -> tuple[int, int]:
        with torch.inference_mode():
            rows = model.generate(
                prompts,
                attention_mask=mask,
                do_sample=True,
                top_k=0,
                max_new_tokens=new,
                min_new_tokens=new,
                pad_token_id=0,
            )
        return tuple(rows.shape)

    with torch.inference_mode():
        logits = model(prompts[:1]).logits[0, -1].tolist()
    for line in sys.stdin:
        start = time.perf_counter()
        shape = [run() for _ in range(int(line))][-1]
        seconds = (time.perf_counter() - start) / int(line)
        answer = {
            "seconds": seconds,
            "shape": shape,
            "logits": logits,
            "versions": [transformers.__version__, torch.__version__],
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
