"""The options of ``python -m specviz``, and the checks of them that need no model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn, get_args

from specviz.cli.standard_streams import read_input
from specviz.errors import ConfigError, PromptError, shortened
from specviz.record.bodies import NO_BODY
from specviz.record.drafters import DRAFT_METHODS, DRAFTERS_IN_WORDS
from specviz.record.forks import parse_forks
from specviz.record.limits import COMPARED_TIMING_SECONDS, LIMITS, TIMING, TIMING_SECONDS
from specviz.record.pairs import STEPS, PairSpec
from specviz.record.trace import ResidualName, RuleName, RunConfig

DEFAULTS = RunConfig()
BENCH_BODY = "90M"


class UsageError(Exception):
    """A command line that cannot be parsed."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(shortened(message), self.prog)

    def print_help(self, file: Any = None) -> None:
        """Unlike the inherited method, it fails if standard output fails."""
        print(self.format_help(), end="", file=file)


def build_parser() -> Parser:
    parser = Parser(
        prog="python -m specviz", description="Real speculative decoding, round by round."
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="run|show|bench|compare"
    )
    _add_run(commands.add_parser("run", help="decode a prompt and print every round"))
    _add_show(commands.add_parser("show", help="replay a saved trace; needs no models"))
    _add_bench(commands.add_parser("bench", help="measure this engine against others"))
    _add_compare(commands.add_parser("compare", help="measure two to four lanes side by side"))
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompt", metavar="PROMPT", help="the text to continue; - reads standard input"
    )
    _add_pair(parser)
    _add_sampling(parser)
    _add_method(parser)
    parser.add_argument("--chat", action="store_true", help="use the target's chat template")
    parser.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not measure the target alone",
    )
    _add_budget(parser, TIMING_SECONDS)
    parser.add_argument(
        "--measure-costs", action="store_true", help="measure the step costs again, even if stored"
    )
    _add_json(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the trace here")
    parser.add_argument(
        "--no-keep", dest="keep", action="store_false", help="do not keep the run in the library"
    )


def _add_budget(parser: argparse.ArgumentParser, usual: float) -> None:
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="the longest time for timing the target alone along a run; it ends sooner once the "
        f"speedup is known to ± 5 %% (default: {usual:g})",
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a trace saved with run --out")
    parser.add_argument("--pace", action="store_true", help="replay at the pace of the run")
    parser.add_argument(
        "--html", type=Path, metavar="OUT", help="instead write a replay that opens in any browser"
    )
    _add_json(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_pair(parser, threads=1, target_body=BENCH_BODY)
    parser.add_argument(
        "--repeats",
        type=int,
        default=20,
        metavar="N",
        help="how often the lanes run in turn; an interval needs 6 (default: 20)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer prompts and shorter texts")
    _add_json(parser)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lane",
        action="append",
        required=True,
        metavar="KEY=VALUE,…",
        help="a lane: settings, pair, draft, target or name; what it leaves out is taken from the "
        "options below. Give it two to four times",
    )
    prompts = parser.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompt", metavar="TEXT", help="one prompt; - reads standard input")
    prompts.add_argument(
        "--suite",
        type=Path,
        metavar="FILE",
        help="JSONL: on every line a prompt and, if it has one, its kind",
    )
    prompts.add_argument("--presets", action="store_true", help="the prompts of the dashboard")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="seeds (default: 5)")
    _add_pair(parser)
    _add_sampling(parser)
    _add_method(parser)
    parser.add_argument("--chat", action="store_true", help="use the targets' chat templates")
    parser.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not measure the target alone",
    )
    _add_budget(parser, COMPARED_TIMING_SECONDS)
    parser.add_argument("--title", default="", metavar="TEXT", help="its name in the run library")
    parser.add_argument("--restart", action="store_true", help="measure kept runs again")
    _add_against(parser)
    _add_json(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the JSON object here")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="save a page with the verdict, the table and the race here",
    )


def _add_against(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("regression")
    group.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="exit with 1 if a lane is slower than in this saved comparison",
    )
    group.add_argument(
        "--fail-below",
        type=float,
        metavar="N",
        help="the smallest ratio that passes (default: 0.95)",
    )
    group.add_argument(
        "--against-rate", action="store_true", help="compare tokens per second, not speedups"
    )


def _add_pair(
    parser: argparse.ArgumentParser, *, threads: int | None = None, target_body: str = NO_BODY
) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--pair", metavar="NAME", help="a pair by name (default: the embedded one)")
    group.add_argument("--draft", metavar="X", help="a draft model: Hub id or folder")
    group.add_argument("--target", metavar="Y", help="a target model: Hub id or folder")
    for role, body in (("target", target_body), ("draft", NO_BODY)):
        group.add_argument(
            f"--{role}-body",
            default=body,
            metavar="BODY",
            help=f"grow the {role} to a size such as 90M, or to the shape of a well-known model, "
            f"such as llama-3.2-1b: it costs more and says the same (default: {body})",
        )
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    group.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16")
    group.add_argument(
        "--threads",
        type=int,
        default=threads,
        metavar="N",
        help=f"CPU threads (default: {threads or 'chosen'})",
    )
    group.add_argument(
        "--step",
        default="auto",
        choices=STEPS,
        help="library: through transformers; lean: without its overhead, for some families "
        "(default: auto, which is lean if it gives the same)",
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    for name, kind, text in (
        ("gamma", int, f"candidates drafted a round, {LIMITS['gamma']}"),
        ("temperature", float, "0 is greedy"),
        ("top-k", int, "0 is off"),
        ("top-p", float, "1 is off"),
        ("max-new-tokens", int, f"the length limit, {LIMITS['max_new_tokens']}"),
        ("seed", int, "the same seed gives the same run"),
    ):
        default = getattr(DEFAULTS, name.replace("-", "_"))
        group.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N",
            help=f"{text} (default: {default})",
        )
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end at TEXT; repeatable"
    )
    group.add_argument(
        "--fork", action="append", default=[], metavar="FORK",
        help="overrule a verdict: ROUND:PLACE:TOKEN=DRAW or, at temperature 0, "
        "ROUND:PLACE:TOKEN>INSTEAD; repeatable",
    )  # fmt: skip
    group.add_argument("--ignore-eos", action="store_true", help="go on after the end of the text")


def _add_method(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("method")
    group.add_argument(
        "--drafter",
        choices=tuple(DRAFT_METHODS),
        default=DEFAULTS.drafter,
        help=f"who drafts: {DRAFTERS_IN_WORDS} (default: {DEFAULTS.drafter})",
    )
    group.add_argument(
        "--rule",
        choices=get_args(RuleName),
        default=DEFAULTS.rule,
        help="lossless keeps the target's distribution, over-accept trades it for speed "
        f"(default: {DEFAULTS.rule})",
    )
    group.add_argument(
        "--epsilon",
        type=float,
        default=DEFAULTS.epsilon,
        metavar="N",
        help=f"what over-accept adds to the target's probability (default: {DEFAULTS.epsilon:g})",
    )
    group.add_argument(
        "--residual",
        choices=get_args(ResidualName),
        default=DEFAULTS.residual,
        help=f"what over-accept resamples from (default: {DEFAULTS.residual})",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )


def config_from(options: argparse.Namespace) -> RunConfig:
    """The settings of the run; raises ConfigError for one that is wrong or has no effect."""
    config = RunConfig(
        gamma=options.gamma,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        max_new_tokens=options.max_new_tokens,
        seed=options.seed,
        drafter=options.drafter,
        rule=options.rule,
        epsilon=options.epsilon,
        residual=options.residual,
        ignore_eos=options.ignore_eos,
        stop=tuple(options.stop),
        chat=options.chat,
        forks=parse_forks("+".join(options.fork)),
    )
    if config.lossless and (config.epsilon > 0 or config.residual != "leftover"):
        raise ConfigError(
            "--epsilon and --residual act only on the over-acceptance rule.",
            remedy="Add --rule over-accept, or leave them out.",
        )
    return config


def check_budget(options: argparse.Namespace) -> None:
    if options.budget is not None and options.budget not in TIMING:  # nor is what is no number
        raise ConfigError(f"--budget is {options.budget}.", remedy=f"Give seconds, {TIMING}.")


def check_pair(options: argparse.Namespace, *, needs_draft: bool) -> None:
    """Raises ConfigError if too many or too few models are named."""
    if options.pair is not None and (options.draft is not None or options.target is not None):
        raise ConfigError(
            "--pair comes with --draft or --target.",
            remedy="Give a pair by name, or its two models.",
        )
    if options.draft is not None and options.target is None:
        raise ConfigError("--draft has no --target.", remedy="Give both, or --pair NAME.")
    if options.target is not None and options.draft is None and needs_draft:
        raise ConfigError(
            "--target has no --draft.", remedy="Give both, or use --drafter prompt-lookup."
        )
    spec_from(options)


def spec_from(options: argparse.Namespace) -> PairSpec:
    """The pair that is asked for; raises ConfigError for a setting that no machine has."""
    return PairSpec(
        name=options.pair,
        draft=options.draft,
        target=options.target,
        device=options.device,
        dtype=options.dtype,
        step=options.step,
        threads=options.threads,
        target_body=options.target_body,
        draft_body=options.draft_body,
    )


def prompt_from(argument: str) -> str:
    """The prompt. ``-`` reads standard input, without its last line end."""
    text = _standard_input() if argument == "-" else argument
    if not text:
        raise PromptError("The prompt is empty.", remedy="Give at least one character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PromptError("The prompt is not UTF-8.", remedy="Give it in UTF-8.") from None
    return text


def _standard_input() -> str:
    # Bytes that are no UTF-8 become lone surrogates, which the caller refuses.
    text = read_input().decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    return text.removesuffix("\n")
