"""The options of ``load``."""

from __future__ import annotations

import argparse

from specviz.cli.option_groups import (
    add_allow_remote,
    add_json,
    add_prompts,
    add_requested_sampling,
    add_served_model,
)
from specviz.cli.option_kinds import add_file, add_flag, add_number
from specviz.record.load_run import LoadSettings

USERS = "1,2,4,8"
_DEFAULTS = LoadSettings(levels=(1.0,))


def add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "addresses", nargs="+", metavar="URL|FILE",
        help="address of the engine that speculates, or one address for each γ; or files: sweeps "
        "saved with --out, or results of AIPerf or GuideLLM",
    )  # fmt: skip
    add_served_model(parser)
    levels = parser.add_mutually_exclusive_group()
    levels.add_argument(
        "--concurrency", metavar="N,…",
        help="numbers of users; each user sends a prompt when the previous answer has ended "
        f"(default: {USERS})",
    )  # fmt: skip
    levels.add_argument(
        "--rate",
        metavar="R,…",
        help="instead of users: requests per second, sent on a schedule",
    )
    add_number(
        parser, "seconds", _DEFAULTS.seconds,
        "length of each block's measured window, in seconds", "S",
    )  # fmt: skip
    add_number(
        parser, "ramp", _DEFAULTS.ramp,
        "seconds of load before and after the window, which are not part of throughput and "
        "latencies", "S",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=float, metavar="S",
        help="time limit of the whole sweep (default: enough to run A B B A three times at every "
        "level)",
    )  # fmt: skip
    add_prompts(parser, default=" (default)")
    parser.add_argument(
        "--plain-prompts", dest="numbered", action="store_false",
        help="send unchanged prompts to engines that cannot switch off their prefix cache for a "
        "request; by default, a number in front of each prompt prevents cache hits",
    )  # fmt: skip
    restarts = parser.add_argument_group("fresh starts")
    restarts.add_argument(
        "--restart-command", default="", metavar="COMMAND",
        help="a command that restarts the first engine, and returns once the old process has "
        "ended; it runs without a shell",
    )  # fmt: skip
    restarts.add_argument(
        "--starts", type=int, metavar="N",
        help="number of fresh starts for each γ, with --restart-command (default: 3)",
    )  # fmt: skip
    restarts.add_argument(
        "--gammas", metavar="G,…",
        help="values of γ (candidates per round), which replace {gamma} in --restart-command. "
        "Without --baseline, the command also gets 0, to start the target alone",
    )  # fmt: skip
    limits = parser.add_argument_group("limits")
    add_number(
        limits, "most-requests", _DEFAULTS.most_requests,
        "maximum number of requests in the whole sweep",
    )  # fmt: skip
    add_number(
        limits, "most-in-flight", _DEFAULTS.most_in_flight,
        "maximum number of requests in flight, with --rate",
    )  # fmt: skip
    add_number(
        limits, "request-limit", _DEFAULTS.request_limit,
        "seconds after which a request counts as failed", "S",
    )  # fmt: skip
    add_flag(
        limits, "confirm",
        "send the requests to another machine; without --confirm, only count them",
    )  # fmt: skip
    add_allow_remote(limits)
    group = parser.add_argument_group(
        "answers",
        "A bearer key is read from SPECVIZ_SERVER_KEY and sent only to the addresses in "
        "SPECVIZ_SERVER_KEY_FOR. The key for the baseline is in SPECVIZ_BASELINE_KEY.",
    )  # fmt: skip
    add_requested_sampling(group)
    group.add_argument(
        "--stop-at-eos", dest="ignore_eos", action="store_false",
        help="end answers at the end-of-text token; by default, all answers are equally long, if "
        "the engine allows it",
    )  # fmt: skip
    add_json(parser)
    output = parser.add_argument_group("results")
    add_file(output, "out", "save the sweep as JSON")
    add_file(output, "csv", "save a table of the blocks")
    add_file(output, "html", "save one HTML file")
    output.add_argument(
        "--no-keep", dest="keep", action="store_false", help="do not store the sweep"
    )
