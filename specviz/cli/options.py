"""The options of the command line; ``option_values`` reads and checks the given values."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from specviz import __version__
from specviz.cli.dashboard import add_dashboard
from specviz.cli.info import add_info
from specviz.cli.load_options import add_load
from specviz.cli.option_groups import (
    add_allow_remote,
    add_budget,
    add_decoding,
    add_json,
    add_no_baseline,
    add_on,
    add_pair,
    add_prompts,
    add_requested_sampling,
    add_running_engines,
    add_served_model,
)
from specviz.cli.option_kinds import add_file, add_flag, add_number
from specviz.cli.scoring_maker import add_remote
from specviz.cli.settings import add_settings
from specviz.cli.train_options import add_train
from specviz.cli.winrate_options import add_winrate
from specviz.errors import shortened
from specviz.record.breaks import BREAKS
from specviz.record.drafters import DRAFT_METHODS
from specviz.record.limits import COMPARED_TIMING_SECONDS, TEXT_BUDGET, TIMING_SECONDS
from specviz.record.pairs import COPY_TYPES

BENCH_BODY = "90M"


class UsageError(Exception):
    """Raised for a command line that cannot be parsed."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(shortened(message), self.prog)

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike the inherited method, raise if the output cannot be written."""
        print(self.format_help(), end="", file=file)


def program() -> str:
    """Return how this program was started, for help and errors."""
    return "specviz" if Path(sys.argv[0]).stem == "specviz" else "python -m specviz"


def build_parser() -> Parser:
    parser = Parser(
        prog=program(),
        description="Real speculative decoding, round by round.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"specviz {__version__}")
    add_dashboard(parser)
    commands = parser.add_subparsers(dest="command")
    _add_run(commands.add_parser("run", help="decode a prompt and print every round"))
    _add_show(commands.add_parser("show", help="replay a saved trace; needs no models"))
    _add_bench(commands.add_parser("bench", help="measure this engine against others"))
    _add_compare(commands.add_parser("compare", help="compare two to four pairs or settings"))
    _add_score(commands.add_parser("score", help="show acceptance along a text, token by token"))
    _add_tune(commands.add_parser("tune", help="find the best γ and draft for your texts"))
    _add_audit(
        commands.add_parser("audit", help="test that the output follows the target's distribution")
    )
    _add_doctor(commands.add_parser("doctor", help="find out why a head's drafts are rejected"))
    _add_attach(commands.add_parser("attach", help="measure a running serving engine"))
    _add_models(commands.add_parser("models", help="list the models on this machine"))
    _add_costs(commands.add_parser("costs", help="list, export or forget stored step costs"))
    add_train(commands.add_parser("train", help="train a draft on texts of the target"))
    add_winrate(commands.add_parser("winrate", help="measure what lossy rules cost in quality"))
    add_load(commands.add_parser("load", help="measure a serving engine with many users"))
    add_settings(commands.add_parser("settings", help="print or check a dashboard's settings"))
    add_info(commands.add_parser("info", help="describe this installation for a bug report"))
    commands.metavar = "|".join(commands.choices)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompt", metavar="PROMPT", help="the text to continue; - reads standard input"
    )
    add_decoding(parser)
    add_no_baseline(parser)
    add_budget(parser, TIMING_SECONDS)
    add_flag(
        parser, "measure-costs",
        "discard the stored step costs, measure a full table of new ones, and compare these "
        "with the times of the run",
    )  # fmt: skip
    add_json(parser)
    add_file(parser, "out", "save the trace here")
    parser.add_argument(
        "--no-keep", dest="keep", action="store_false", help="do not keep the run in the library"
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="target", metavar="TARGET", help="list the drafts that fit this model"
    )
    parser.add_argument(
        "--models", action="append", default=[], metavar="DIR",
        help="also search this folder, now and in later commands; repeatable",
    )  # fmt: skip
    parser.add_argument("--forget", metavar="DIR", help="no longer search this folder")
    add_flag(parser, "skipped", "also list the unusable models, with the reason")
    add_json(parser)


def _add_costs(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "forget", "delete the step costs of all pairs on this machine")
    add_json(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a trace saved with run --out")
    add_flag(parser, "pace", "replay at the pace of the run")
    parser.add_argument(
        "--html", type=Path, metavar="OUT", help="write a replay page for browsers, print nothing"
    )
    add_json(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, threads=1, target_body=BENCH_BODY)
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="how many times all lanes run; an interval needs at least 6 repeats (default: 20; 7 "
        "with --gpu)",
    )
    add_flag(parser, "quick", "fewer prompts and shorter texts")
    add_flag(
        parser, "accounting",
        "another benchmark: observed against accounted and forecast speedups, each run in a "
        "process of its own; --repeats is the number of seeds (default: 7, which takes an hour)",
    )  # fmt: skip
    add_file(parser, "plot", "with --accounting: draw the runs (SVG)")
    add_flag(
        parser, "quantised",
        "another benchmark: this engine against llama.cpp on a GGUF file (default: the chat "
        "model) and on copies of it in other quantisations",
    )  # fmt: skip
    add_flag(
        parser, "batch",
        "another benchmark: decode 1 to 16 prompts together, at --temperature, and compare "
        "the speedup with its forecast; --repeats is how many times each batch is measured "
        "(default: 6)",
    )  # fmt: skip
    add_number(parser, "temperature", 0.0, "with --batch", "T")
    parser.add_argument(
        "--types", metavar="T,…",
        help=f"with --quantised: types of the copies, from {', '.join(COPY_TYPES)} "
        "(default: q8_0,q5_0,q4_0)",
    )  # fmt: skip
    group = parser.add_argument_group("on a GPU")
    add_flag(
        group, "gpu",
        "another benchmark: CUDA graphs against transformers, a compiled target and the "
        "memory bandwidth",
    )  # fmt: skip
    group.add_argument(
        "--bodies",
        metavar="X/Y,…",
        help="simulated sizes of draft and target (default: 0.5B/7B,1B/8B)",
    )
    group.add_argument(
        "--contexts", metavar="N,…", help="prompt lengths in tokens (default: 256,4096)"
    )
    group.add_argument("--gammas", metavar="N,…", help="values of γ (default: 3,5,8)")
    add_json(parser)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lane",
        action="append",
        required=True,
        metavar="KEY=VALUE,…",
        help="a lane: settings, pair, draft, target or name; the options below are the defaults. "
        "Give --lane two to four times",
    )
    add_prompts(parser, required=True)
    add_number(parser, "repeats", 5, "seeds")
    add_decoding(parser)
    add_no_baseline(parser)
    add_budget(parser, COMPARED_TIMING_SECONDS)
    add_on(parser)
    parser.add_argument(
        "--title", default="", metavar="TEXT", help="name of the comparison in the run library"
    )
    add_flag(parser, "restart", "measure stored runs again")
    _add_against(parser)
    add_json(parser)
    add_file(parser, "out", "save the JSON object here")
    add_file(parser, "html", "save a page with the verdict, the table and the race here")


def _add_score(parser: argparse.ArgumentParser) -> None:
    texts = parser.add_mutually_exclusive_group(required=True)
    add_file(texts, "text-file", "score this text; its first token counts as the prompt")
    texts.add_argument(
        "--prompt", metavar="TEXT",
        help="score the target's own continuation of this prompt; - reads standard input",
    )  # fmt: skip
    add_decoding(parser, method=False)
    add_remote(parser)
    add_json(parser)


def _add_tune(parser: argparse.ArgumentParser) -> None:
    add_prompts(parser, default=" (default)")
    parser.add_argument(
        "--temperatures", default="0,0.4,0.7,1", metavar="T,T,…",
        help="temperatures of the surface (γ × temperature); the advice is for --temperature "
        "(default: 0,0.4,0.7,1)",
    )  # fmt: skip
    parser.add_argument(
        "--candidate", action="append", default=[], metavar="KEY=VALUE,…",
        help="a further candidate, written like a lane of compare: a draft, a simulated size, "
        "or a method such as rule=block or drafter=suffix",
    )  # fmt: skip
    parser.add_argument(
        "--text-budget", type=float, default=TEXT_BUDGET, metavar="SECONDS",
        help="time limit for further continuations of a single prompt; writing ends sooner once "
        "the interval of the speedup is ± 10 %% or its width comes mostly from the step costs "
        f"(default: {TEXT_BUDGET})",
    )  # fmt: skip
    costs = parser.add_argument_group("costs of another machine")
    costs.add_argument("--c", type=float, metavar="N", help="cost of a draft step, in target steps")
    costs.add_argument(
        "--v", type=float, metavar="N", help="cost of verifying a round, in target steps"
    )
    add_file(
        costs, "verify-costs",
        "JSON in place of --v: costs by the number of tokens verified, such as "
        '{"2": 1.02, "6": 1.1}',
    )  # fmt: skip
    add_flag(
        parser, "measure",
        "after the advice, measure the best setting of each temperature or, with several "
        "candidates, race the three that rank highest",
    )  # fmt: skip
    parser.add_argument(
        "--cells",
        metavar="γ:T,…",
        help="pairs of γ and temperature that --measure measures, such as 2:0.7,4:0.7",
    )
    add_number(parser, "repeats", 1, "seeds per measurement")
    add_decoding(parser, method=False, drafts=True)
    add_budget(parser, COMPARED_TIMING_SECONDS)
    add_on(parser)
    add_remote(parser)
    add_json(parser)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--break",
        dest="broken",
        metavar="NAME",
        help=f"inject a bug, to see whether the audit finds it: {', '.join(BREAKS)}",
    )
    add_number(parser, "runs", 300, "short runs to test")
    add_decoding(parser)
    add_json(parser)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--head", dest="draft", metavar="X", help="the head: a folder or a Hub id")
    parser.add_argument(
        "--drafter", choices=[each.name for each in DRAFT_METHODS.values() if each.needs_head],
        help="the kind of head; needed for a Hub id that was never loaded",
    )  # fmt: skip
    add_number(parser, "tokens", 1024, "tokens that the target writes for the examination")
    add_file(parser, "write", "write a config.json with the best settings")
    add_running_engines(parser)
    add_decoding(parser, method=False)
    add_json(parser)


def _add_attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="URL", help="the engine's address, such as http://127.0.0.1:8000; or a "
        "file: the engine's log, or a saved /metrics page",
    )  # fmt: skip
    add_prompts(parser)
    add_served_model(parser)
    add_flag(parser, "watch", "at the end, follow the engine's counters")
    add_number(parser, "every", 2.0, "seconds between two readings of --watch", "SECONDS")
    add_allow_remote(parser)
    group = parser.add_argument_group(
        "sampling",
        "A bearer key is read from SPECVIZ_SERVER_KEY and sent only to the addresses in "
        "SPECVIZ_SERVER_KEY_FOR; for the baseline, from SPECVIZ_BASELINE_KEY.",
    )  # fmt: skip
    add_requested_sampling(group)
    add_flag(group, "ignore-eos", "continue after the end-of-text token")
    add_json(parser)
    parser.add_argument(
        "--no-keep", dest="keep", action="store_false", help="do not keep the runs in the library"
    )


def _add_against(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("regression")
    add_file(group, "against", "exit with 1 if a lane is slower than in this saved comparison")
    group.add_argument(
        "--fail-below",
        type=float,
        metavar="N",
        help="the smallest ratio of new to saved value that passes (default: 0.95)",
    )
    add_flag(group, "against-rate", "compare tokens per second, not speedups")
