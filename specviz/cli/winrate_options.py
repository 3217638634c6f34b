"""The options of ``winrate``."""

from __future__ import annotations

import argparse

from specviz.cli.option_groups import (
    add_allow_remote,
    add_decoding,
    add_json,
    add_on,
    add_prompts,
)
from specviz.cli.option_kinds import add_file, add_flag, add_number
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
    add_number(
        parser, "texts", TEXTS, "texts of each rule per prompt; all N × N pairs are compared"
    )
    add_prompts(parser, default=" (default)")
    judge = parser.add_argument_group("with a judge")
    add_file(
        judge, "judge-prompt",
        "the question to the judge, with {prompt}, {first} and {second}",
    )  # fmt: skip
    add_number(
        judge, "judged-pairs", JUDGED_PAIRS,
        "pairs of texts per prompt and comparison; the judge gets each pair in both orders",
    )  # fmt: skip
    add_flag(judge, "confirm", "send the requests; without --confirm, only count them")
    add_allow_remote(judge)
    parser.add_argument("--drafter", metavar="NAME", help="the draft method, as in run")
    add_decoding(parser, method=False)
    add_on(parser)
    add_flag(parser, "restart", "make stored runs again")
    add_json(parser)
    parser.set_defaults(budget=None)
