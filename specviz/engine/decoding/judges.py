"""Select the object that accepts or rejects the candidates (the judge) for a configuration."""

from __future__ import annotations

from specviz.engine.decoding.block_verification import BlockJudge
from specviz.engine.decoding.judging import ChainJudge, Judge
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.token_matching import IndependentDraw, MatchingJudge, SharedNoise
from specviz.engine.decoding.tree_verification import TreeJudge
from specviz.engine.decoding.verify import Rule, make_rule
from specviz.record.run_config import RunConfig


def make_judge(config: RunConfig, sampler: Sampler, rule: Rule | None = None) -> Judge:
    """Return the object that accepts or rejects candidates under this configuration.

    ``rule``: an acceptance rule for a ``ChainJudge``, instead of the configuration's rule.
    """
    match config.rule:
        case "lossless" if rule is None and not config.is_chain:
            return TreeJudge(sampler)
        case "block":
            return BlockJudge(sampler)
        case "coupled":
            return MatchingJudge(SharedNoise())
        case "match":
            return MatchingJudge(IndependentDraw(sampler))
        case _:
            return ChainJudge(rule or make_rule(config), sampler)
