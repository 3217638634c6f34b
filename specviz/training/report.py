"""Measure the results that the model cards report.

The results for each source are the losses and the acceptance along held-out text. The result for
each kind of prompt is the acceptance in runs of the engine. There are also sample texts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from specviz.engine import Pair, load_pair, speculate
from specviz.figures.metrics import Metrics, metrics
from specviz.measure.measured_run import finish, measured_run
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from specviz.training.corpus import Source, encode_documents
from specviz.training.evaluate import agreement, held_out_loss
from specviz.values import Value

SAMPLE_PROMPT = "Once upon a time"
SAMPLE_SEEDS = range(5)
_MAX_TOKENS = 65_536  # held-out tokens per source


class SourceFigures(Value):
    """Losses and acceptance on the held-out documents of one source."""

    name: str
    sha256: str
    documents: int
    tokens: int
    target_loss: float
    draft_loss: float
    acceptance_t1: float
    acceptance_t07: float
    greedy_agreement: float


class KindFigures(Value):
    """Observed acceptance and tokens per round on one kind of prompt, at γ = 5."""

    kind: str
    alpha_greedy: float
    tau_greedy: float
    alpha_t07: float
    tau_t07: float


class Report(Value):
    sources: tuple[SourceFigures, ...]
    kinds: tuple[KindFigures, ...]
    samples: tuple[str, ...]
    target_parameters: int
    draft_parameters: int


def measure_report(folder: Path, sources: dict[str, Source]) -> Report:
    """Measure everything that the model cards report for the pair in ``folder``."""
    pair = load_pair(PairSpec(target=str(folder / "target"), draft=str(folder / "draft")))
    draft = pair.info.draft
    assert draft is not None
    return Report(
        sources=_by_source(folder, sources),
        kinds=tuple(_of_kind(pair, kind) for kind in _kinds()),
        samples=tuple(_sample(pair, seed) for seed in SAMPLE_SEEDS),
        target_parameters=pair.info.target.parameters,
        draft_parameters=draft.parameters,
    )


def _by_source(folder: Path, sources: dict[str, Source]) -> tuple[SourceFigures, ...]:
    tokenizer = Tokenizer.from_file(str(folder / "target" / "tokenizer.json"))
    target = LlamaForCausalLM.from_pretrained(folder / "target", dtype=torch.float32)
    draft = LlamaForCausalLM.from_pretrained(folder / "draft", dtype=torch.float32)
    evaluated = [source for source in sources.values() if source.held_out]
    return tuple(_of_source(source, tokenizer, draft, target) for source in evaluated)


def _of_source(
    source: Source, tokenizer: Tokenizer, draft: LlamaForCausalLM, target: LlamaForCausalLM
) -> SourceFigures:
    stream = encode_documents(tokenizer, source.held_out)
    agreed = agreement(draft, target, stream, _MAX_TOKENS)
    return SourceFigures(
        name=source.name,
        sha256=source.held_out_sha256,
        documents=len(source.held_out),
        tokens=min(_MAX_TOKENS, len(stream.ids)),
        target_loss=held_out_loss(target, stream, _MAX_TOKENS),
        draft_loss=agreed.draft_loss,
        acceptance_t1=agreed.overlap,
        acceptance_t07=agreed.overlap_cool,
        greedy_agreement=agreed.greedy,
    )


def _kinds() -> list[str]:
    return list(dict.fromkeys(preset.kind for preset in read_presets()))


def _of_kind(pair: Pair, kind: str) -> KindFigures:
    greedy = _runs_of(pair, kind, RunConfig(temperature=0.0, max_new_tokens=96))
    warm = _runs_of(pair, kind, RunConfig(temperature=0.7, max_new_tokens=96))
    return KindFigures(
        kind=kind,
        alpha_greedy=_pooled_alpha(greedy),
        tau_greedy=fmean(m.tau for m in greedy if m.tau),
        alpha_t07=_pooled_alpha(warm),
        tau_t07=fmean(m.tau for m in warm if m.tau),
    )


def _runs_of(pair: Pair, kind: str, config: RunConfig) -> list[Metrics]:
    prompts = [preset.text for preset in read_presets() if preset.kind == kind]
    settings = replace(config, ignore_eos=True)
    results: list[Metrics] = []
    for prompt in prompts:
        run = finish(measured_run(pair, prompt, settings, baseline=False))
        results.append(metrics(run))
    return results


def _pooled_alpha(results: list[Metrics]) -> float:
    return sum(m.num_accepted for m in results) / sum(m.num_tested for m in results)


def _sample(pair: Pair, seed: int) -> str:
    config = RunConfig(temperature=0.7, max_new_tokens=200, seed=seed, record=False)
    run = speculate(pair, SAMPLE_PROMPT, config)
    for _ in run:
        pass
    return SAMPLE_PROMPT + run.text
