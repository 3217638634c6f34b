"""The options of ``load``."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.option_groups import add_allow_remote, add_json, add_numbers, add_prompts

_USERS = "1,2,4,8"


def add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="URL", help="the engine's address, such as http://127.0.0.1:8000; or a "
        "file: a sweep that --out wrote, or the JSON of AIPerf or GuideLLM",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="URL", help="address of the same model without speculation; not "
        "needed if the engine can switch speculation off for a request",
    )  # fmt: skip
    parser.add_argument(
        "--also", action="append", default=[], metavar="URL",
        help="address of the same model with another γ; repeatable",
    )  # fmt: skip
    parser.add_argument("--model", metavar="NAME", help="the model, if the engine serves several")
    add_prompts(parser, default=" (default)")
    _add_levels(parser.add_argument_group("load"))
    _add_restarts(parser.add_argument_group("fresh starts"))
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--budget", type=float, default=600.0, metavar="SECONDS",
        help="time for the whole sweep (default: 600)",
    )  # fmt: skip
    limits.add_argument(
        "--most-requests", type=int, default=10_000, metavar="N",
        help="the sweep ends after this many requests (default: 10000)",
    )  # fmt: skip
    limits.add_argument(
        "--request-limit", type=float, default=120.0, metavar="SECONDS",
        help="a request that takes longer is a failure (default: 120)",
    )  # fmt: skip
    limits.add_argument(
        "--confirm", action="store_true",
        help="load an engine on another machine; without it the requests are only counted",
    )  # fmt: skip
    add_allow_remote(limits)
    sampling = parser.add_argument_group("sampling", "Keys are read as by attach.")
    add_numbers(sampling, "temperature", "top-k", "top-p", "max-new-tokens", "seed")
    sampling.add_argument(
        "--stop-at-eos", dest="ignore_eos", action="store_false",
        help="let answers end; by default all have the same length, if the engine can ignore EOS",
    )  # fmt: skip
    sampling.add_argument("--chat", action="store_true", help="use the engine's chat endpoint")
    add_json(parser)
    for name, what in (("out", "the sweep as JSON"), ("csv", "a row for each block"),
                       ("html", "sentences and tables as one page")):  # fmt: skip
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {what}")


def _add_levels(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    levels = group.add_mutually_exclusive_group()
    levels.add_argument(
        "--concurrency", default=_USERS, metavar="N,…",
        help="users, each of whom sends the next prompt when an answer ends "
        f"(default: {_USERS})",
    )  # fmt: skip
    levels.add_argument(
        "--rate", metavar="R,…", help="requests per second instead, sent on time whether earlier "
        "ones have ended or not",
    )  # fmt: skip
    group.add_argument(
        "--seconds", type=float, default=10.0, help="length of the window of a block (default: 10)"
    )
    group.add_argument(
        "--ramp", type=float, default=2.0, metavar="SECONDS",
        help="load before and after the window, which is not counted (default: 2)",
    )  # fmt: skip
    group.add_argument(
        "--most-in-flight", type=int, default=256, metavar="N",
        help="requests in flight with --rate; later ones are not sent (default: 256)",
    )  # fmt: skip
    group.add_argument(
        "--as-they-are", dest="numbered", action="store_false",
        help="send prompts without the number in front that keeps them out of a prefix cache",
    )  # fmt: skip


def _add_restarts(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    group.add_argument(
        "--restart-command", default="", metavar="COMMAND",
        help="ends the engine, starts it again in the background, and returns; {gamma} in it is "
        "replaced by each of --gammas",
    )  # fmt: skip
    group.add_argument("--gammas", metavar="N,…", help="values of γ for {gamma}")
    group.add_argument(
        "--starts", type=int, default=1, metavar="N",
        help="fresh starts of each lane; intervals are then over starts (default: 1)",
    )  # fmt: skip
