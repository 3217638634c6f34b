"""The options of ``winrate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.option_groups import (
    add_allow_remote,
    add_chat,
    add_json,
    add_on,
    add_pair,
    add_prompts,
    add_sampling,
)

_WITHOUT_METHOD = {
    "budget": None,
    "draft_until": "count", "num_drafts": 1, "replacement": True, "rule": "lossless",
    "epsilon": 0.0, "residual": "leftover", "branching": "", "dynamic_tree": "",
}  # fmt: skip


def add_winrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scorer", default="likelihood", metavar="NAME",
        help="what compares two texts: likelihood (under the target), model:NAME (likelihood "
        "under another model), distance (bias, as recorded), reward:NAME (a reward model) or "
        "judge:ADDRESS (a chat model behind an OpenAI-compatible address) (default: likelihood)",
    )  # fmt: skip
    parser.add_argument(
        "--epsilons", default="0.05,0.1,0.2,0.4", metavar="E,…",
        help="values of ε of the lossy rules (default: 0.05,0.1,0.2,0.4)",
    )  # fmt: skip
    parser.add_argument(
        "--rules", default="over-accept,typical", metavar="R,…",
        help="lossy rules (default: over-accept,typical); over-accept runs twice, with recovered "
        "tokens from the residual (OPT) and from the target (UNO)",
    )  # fmt: skip
    parser.add_argument(
        "--texts", type=int, default=4, metavar="N",
        help="texts of each rule per prompt; all N × N pairs are compared (default: 4)",
    )  # fmt: skip
    add_prompts(parser, default=" (default)")
    judge = parser.add_argument_group("with a judge")
    judge.add_argument(
        "--judge-prompt", type=Path, metavar="FILE",
        help="the question to the judge, with {prompt}, {first} and {second}",
    )  # fmt: skip
    judge.add_argument(
        "--judged-pairs", type=int, default=4, metavar="N",
        help="pairs of texts per prompt and comparison; each is asked in both orders (default: 4)",
    )  # fmt: skip
    judge.add_argument(
        "--confirm", action="store_true", help="send the requests; without it they are only counted"
    )
    add_allow_remote(judge)
    add_pair(parser)
    parser.add_argument("--drafter", metavar="NAME", help="the draft method, as in run")
    add_sampling(parser)
    add_chat(parser)
    add_on(parser)
    parser.add_argument("--restart", action="store_true", help="make stored runs again")
    add_json(parser)
    parser.set_defaults(**_WITHOUT_METHOD)
