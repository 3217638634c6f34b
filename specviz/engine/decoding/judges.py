"""Which judge the settings ask for."""

from __future__ import annotations

from specviz.engine.decoding.block_verification import Together
from specviz.engine.decoding.judging import Judge, OneByOne
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.token_matching import Equal, OwnDraw, SharedNoise
from specviz.engine.decoding.tree_verification import Siblings
from specviz.engine.decoding.verify import Rule, make_rule
from specviz.record.run_config import RunConfig


def make_judge(config: RunConfig, sampler: Sampler, rule: Rule | None = None) -> Judge:
    """``rule``: in place of the one that the settings name, for a chain."""
    if rule is None and not config.is_chain:
        return Siblings(sampler)
    match config.rule:
        case "block":
            return Together(sampler)
        case "coupled":
            return Equal(SharedNoise())
        case "match":
            return Equal(OwnDraw(sampler))
        case _:
            return OneByOne(rule or make_rule(config), sampler)
