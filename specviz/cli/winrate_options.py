"""The options of ``winrate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.option_groups import (
    DEFAULT_METHOD,
    add_allow_remote,
    add_chat,
    add_json,
    add_on,
    add_pair,
    add_prompts,
    add_sampling,
)
from specviz.quality.experiment import EPSILONS, JUDGED_PAIRS, LOSSY_RULES, TEXTS

_EPSILONS, _RULES = ",".join(map(str, EPSILONS)), ",".join(LOSSY_RULES)


def add_winrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scorer", default="likelihood", metavar="NAME",
        help="what compares two texts: likelihood (under the target), model:NAME (likelihood "
        "under another model), distance (bias, as recorded), reward:NAME (a reward model) or "
        "judge:ADDRESS (a chat model behind an OpenAI-compatible address) (default: likelihood)",
    )  # fmt: skip
    parser.add_argument(
        "--epsilons", default=_EPSILONS, metavar="E,…",
        help=f"values of ε of the lossy rules (default: {_EPSILONS})",
    )  # fmt: skip
    parser.add_argument(
        "--rules", default=_RULES, metavar="R,…",
        help=f"lossy rules (default: {_RULES}); over-accept runs twice, with recovered "
        "tokens from the residual (OPT) and from the target (UNO)",
    )  # fmt: skip
    parser.add_argument(
        "--texts", type=int, default=TEXTS, metavar="N",
        help=f"texts of each rule per prompt; all N × N pairs are compared (default: {TEXTS})",
    )  # fmt: skip
    add_prompts(parser, default=" (default)")
    judge = parser.add_argument_group("with a judge")
    judge.add_argument(
        "--judge-prompt", type=Path, metavar="FILE",
        help="the question to the judge, with {prompt}, {first} and {second}",
    )  # fmt: skip
    judge.add_argument(
        "--judged-pairs", type=int, default=JUDGED_PAIRS, metavar="N",
        help="pairs of texts per prompt and comparison; the judge gets each pair in both orders "
        f"(default: {JUDGED_PAIRS})",
    )  # fmt: skip
    judge.add_argument(
        "--confirm",
        action="store_true",
        help="send the requests; without --confirm, only count them",
    )
    add_allow_remote(judge)
    add_pair(parser)
    parser.add_argument("--drafter", metavar="NAME", help="the draft method, as in run")
    add_sampling(parser)
    add_chat(parser)
    add_on(parser)
    parser.add_argument("--restart", action="store_true", help="make stored runs again")
    add_json(parser)
    parser.set_defaults(**DEFAULT_METHOD, budget=None)
