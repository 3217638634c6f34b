"""The options of ``load``."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.option_groups import (
    add_allow_remote,
    add_json,
    add_numbers,
    add_prompts,
)
from specviz.record.load_run import LoadSettings

USERS = "1,2,4,8"
_DEFAULTS = LoadSettings(levels=(1.0,))


def add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "addresses", nargs="+", metavar="URL|FILE",
        help="address of the engine that speculates, several for several γ; or files: sweeps "
        "saved with --out, or results of AIPerf or GuideLLM",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="URL", help="address of the same model without speculation"
    )
    parser.add_argument("--model", metavar="NAME", help="the model, if the engine serves several")
    levels = parser.add_mutually_exclusive_group()
    levels.add_argument(
        "--concurrency", metavar="N,…",
        help="numbers of users; each sends the next prompt when its last answer has ended "
        f"(default: {USERS})",
    )  # fmt: skip
    levels.add_argument(
        "--rate", metavar="R,…", help="instead, requests per second, independent of the answers"
    )
    parser.add_argument(
        "--seconds", type=float, default=_DEFAULTS.seconds, metavar="S",
        help=f"length of the window of a block (default: {_DEFAULTS.seconds:g})",
    )  # fmt: skip
    parser.add_argument(
        "--ramp", type=float, default=_DEFAULTS.ramp, metavar="S",
        help="seconds of load before and after the window, which do not count "
        f"(default: {_DEFAULTS.ramp:g})",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=float, metavar="S",
        help="seconds of the whole sweep (default: three times A B B A at every level)",
    )  # fmt: skip
    add_prompts(parser, default=" (default)")
    parser.add_argument(
        "--plain-prompts", dest="numbered", action="store_false",
        help="send the prompts as they are to engines that cannot exclude their prefix cache per "
        "request; without it, a number in front of each prompt keeps it out of the cache",
    )  # fmt: skip
    restarts = parser.add_argument_group("fresh starts")
    restarts.add_argument(
        "--restart-command", default="", metavar="COMMAND",
        help="starts the first engine afresh, and returns once the old one has ended; runs without "
        "a shell",
    )  # fmt: skip
    restarts.add_argument(
        "--starts", type=int, metavar="N",
        help="fresh starts with --restart-command, for each γ (default: 3)",
    )  # fmt: skip
    restarts.add_argument(
        "--gammas", metavar="G,…",
        help="candidates per round; replaces {gamma} in --restart-command. Without --baseline, the "
        "command also gets 0 for the target alone",
    )  # fmt: skip
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--most-requests", type=int, default=_DEFAULTS.most_requests, metavar="N",
        help=f"requests of the whole sweep (default: {_DEFAULTS.most_requests:,})",
    )  # fmt: skip
    limits.add_argument(
        "--most-in-flight", type=int, default=_DEFAULTS.most_in_flight, metavar="N",
        help=f"requests in flight with --rate (default: {_DEFAULTS.most_in_flight})",
    )  # fmt: skip
    limits.add_argument(
        "--request-limit", type=float, default=_DEFAULTS.request_limit, metavar="S",
        help="seconds after which a request counts as failed "
        f"(default: {_DEFAULTS.request_limit:g})",
    )  # fmt: skip
    limits.add_argument(
        "--confirm", action="store_true",
        help="send the requests to another machine; without it they are only counted",
    )  # fmt: skip
    add_allow_remote(limits)
    group = parser.add_argument_group(
        "answers",
        "A bearer key is read from SPECVIZ_SERVER_KEY and sent only to the addresses in "
        "SPECVIZ_SERVER_KEY_FOR; for the baseline, from SPECVIZ_BASELINE_KEY.",
    )  # fmt: skip
    add_numbers(group, "temperature", "top-k", "top-p", "max-new-tokens", "seed")
    group.add_argument(
        "--stop-at-eos", dest="ignore_eos", action="store_false",
        help="end answers at the end-of-text token; without it, all answers are equally long, if "
        "the engine allows it",
    )  # fmt: skip
    group.add_argument("--chat", action="store_true", help="use the engine's chat endpoint")
    add_json(parser)
    output = parser.add_argument_group("results")
    output.add_argument("--out", type=Path, metavar="FILE", help="save the sweep as JSON")
    output.add_argument("--csv", type=Path, metavar="FILE", help="save a table of the blocks")
    output.add_argument("--html", type=Path, metavar="FILE", help="save one HTML file")
    output.add_argument(
        "--no-keep", dest="keep", action="store_false", help="do not keep the sweep"
    )
