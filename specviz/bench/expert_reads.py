"""Count the experts that each pass of a small Mixtral-shaped pair reads, and time the passes.

The target has random weights and writes the text itself. A pass over several rows (tokens) reads
every expert that at least one row chose. The rows of a verification are neighbours in a text, so
their choices may be more alike than independent choices. The draft is the target with one expert
per token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean, median
from typing import Any

from specviz.bench.random_pair import pair_of_models
from specviz.figures.batch_forecast import independent_experts
from specviz.record.batch_costs import ExpertPoint, ExpertReads, ExpertRun
from specviz.record.trace import RunConfig
from specviz.values import Value

ROWS = (1, 2, 3, 4, 6, 9, 17)
_EXPERTS, _PER_TOKEN = 8, 2
_PROMPT = 8  # random tokens before the text
_TEXT = 96
_REPEATS = 6
_GAMMA = 5


class ExpertShape(Value):
    """The size of the model. The experts must not fit into the processor's caches."""

    width: int = 512
    feed_forward: int = 1024
    layers: int = 3
    vocabulary: int = 512


def measure_expert_reads(
    say: Callable[[str], None],
    shape: ExpertShape | None = None,
    *,
    rows: Sequence[int] = ROWS,
    repeats: int = _REPEATS,
) -> ExpertReads:
    """Return how many experts passes over several rows (tokens) read, and their times."""
    import torch

    say("a small mixture of experts")
    shape = shape or ExpertShape()
    model = _model(shape, _PER_TOKEN)
    ids = _text(model, shape)
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in rows}
    with torch.inference_mode():
        for number in range(repeats):
            for count in rows:
                begin = _PROMPT + 1 + (number * 17) % (_TEXT - max(rows))
                found[count].append(_pass(model, ids, begin, count))
    one = median(seconds for _, seconds in found[rows[0]])
    return ExpertReads(
        experts=_EXPERTS,
        per_token=_PER_TOKEN,
        expert_share=_expert_share(model),
        points=tuple(
            ExpertPoint(
                rows=count,
                experts=fmean(each for each, _ in passes),
                independent=independent_experts(_EXPERTS, _PER_TOKEN, count),
                seconds=median(seconds for _, seconds in passes) / one,
            )
            for count, passes in found.items()
        ),
        run=_run(model, shape, ids[0, :_PROMPT].tolist()),
    )


def _run(target: Any, shape: ExpertShape, prompt: Sequence[int]) -> ExpertRun:
    """Return the speedup of speculation, and the experts that the target reads per pass."""
    from specviz.engine import decode_plainly, speculate

    draft = _model(shape, 1)
    draft.load_state_dict(target.state_dict())
    pair = pair_of_models(target, draft, vocabulary=shape.vocabulary, step="library")
    config = RunConfig(
        gamma=_GAMMA, max_new_tokens=_TEXT // 2, temperature=0.0, ignore_eos=True, record=False
    )
    weights: Any = pair.target_weights  # of a copy of the target, with faster products
    with _distinct_experts(weights.model) as steps:
        plain = decode_plainly(pair, prompt, config)
        steps.clear()  # the prompt's
        began = time.process_time()
        count = len(list(plain))
        plainly = (time.process_time() - began) / count
    with _distinct_experts(weights.model) as verifications:
        run = speculate(pair, prompt, config)
        verifications.clear()
        began = time.process_time()
        rounds = list(run)
        speculatively = (time.process_time() - began) / len(run.emitted)
    return ExpertRun(
        gamma=_GAMMA,
        tokens=len(run.emitted) / len(rounds),
        step=fmean(steps),
        verification=fmean(verifications),
        speedup=plainly / speculatively,
    )


@contextmanager
def _distinct_experts(model: Any) -> Iterator[list[int]]:
    """Yield a list that collects the number of distinct experts per layer and pass."""
    found = list[int]()

    def count(_module: Any, _given: Any, routed: Any) -> None:
        found.append(routed[2].unique().numel())

    hooks = [layer.mlp.gate.register_forward_hook(count) for layer in model.model.layers]
    try:
        yield found
    finally:
        for each in hooks:
            each.remove()


def _model(shape: ExpertShape, per_token: int) -> Any:
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    config: Any = MixtralConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        num_local_experts=_EXPERTS,
        num_experts_per_tok=per_token,
        max_position_embeddings=512,
        sliding_window=None,
    )
    config._experts_implementation = "eager"  # reads only the experts that rows chose
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MixtralForCausalLM(config)
        for name, weight in model.named_parameters():
            if "gate.weight" in name or "embed" in name:
                torch.nn.init.normal_(weight, 0.0, 1.0)  # otherwise all rows look alike
    return model.eval().requires_grad_(False)


def _text(model: Any, shape: ExpertShape) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(1)
        prompt = torch.randint(shape.vocabulary, (1, _PROMPT))
        return model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=True, max_new_tokens=_TEXT,
            min_new_tokens=_TEXT, pad_token_id=0, eos_token_id=None,
        )  # fmt: skip


def _pass(model: Any, ids: Any, begin: int, count: int) -> tuple[float, float]:
    """Return the mean distinct experts per layer in a pass over ``count`` tokens, and its time."""
    from transformers import DynamicCache

    cache = DynamicCache()
    model(ids[:, :begin], past_key_values=cache, use_cache=True)
    fed = ids[:, begin : begin + count]
    with _distinct_experts(model) as chosen:
        began = time.process_time()
        model(fed, past_key_values=cache, use_cache=True)
        return fmean(chosen), time.process_time() - began


def _expert_share(model: Any) -> float:
    sizes = {name: weight.numel() for name, weight in model.named_parameters()}
    experts = sum(size for name, size in sizes.items() if "experts" in name)
    return experts / sum(size for name, size in sizes.items() if "embed" not in name)
