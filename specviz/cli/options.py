"""What may be typed after ``python -m specviz``, and the checks that need no model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NoReturn, get_args

from specviz.cli.streams import read_input
from specviz.errors import ConfigError, PromptError, shortened
from specviz.record.drafters import DRAFT_METHODS, DRAFTERS_IN_WORDS
from specviz.record.limits import LIMITS
from specviz.record.pairs import STEPS, PairSpec
from specviz.record.trace import ResidualName, RuleName, RunConfig

DEFAULTS = RunConfig()


class UsageError(Exception):
    """A command line that cannot be parsed."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(shortened(message), self.prog)

    def print_help(self, file: Any = None) -> None:
        """Unlike its parent's, it fails where standard output does."""
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
    _add_bench(commands.add_parser("bench", help="measure this engine against transformers"))
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
    parser.add_argument(
        "--measure-costs", action="store_true", help="measure the step costs again, though kept"
    )
    _add_json(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the trace here")
    parser.add_argument(
        "--no-keep", dest="keep", action="store_false", help="leave the run library as it is"
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a trace saved with run --out")
    parser.add_argument("--pace", action="store_true", help="at the true pace of the run")
    parser.add_argument(
        "--html", type=Path, metavar="OUT", help="write a replay that opens in any browser instead"
    )
    _add_json(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_pair(parser)
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--quick", action="store_true", help="fewer prompts and settings")
    _add_json(parser)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lane",
        action="append",
        required=True,
        metavar="KEY=VALUE,…",
        help="a lane: settings, pair, draft, target or name; what it leaves out is as below. "
        "Two to four times",
    )
    prompts = parser.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompt", metavar="TEXT", help="one prompt; - reads standard input")
    prompts.add_argument(
        "--suite", type=Path, metavar="FILE", help="JSONL: a prompt and, if any, its kind a line"
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
    parser.add_argument("--title", default="", metavar="TEXT", help="its name in the run library")
    parser.add_argument("--restart", action="store_true", help="measure again what is kept")
    _add_against(parser)
    _add_json(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the JSON object here")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="save the verdict, the table and the race here"
    )


def _add_against(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("regression")
    group.add_argument(
        "--against", type=Path, metavar="FILE", help="exit 1 if a lane is slower than saved here"
    )
    group.add_argument(
        "--fail-below", type=float, metavar="N", help="the ratio that still passes (default: 0.95)"
    )
    group.add_argument(
        "--against-rate", action="store_true", help="compare tokens per second, not speedups"
    )


def _add_pair(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--pair", metavar="NAME", help="a pair by name (default: the embedded one)")
    group.add_argument("--draft", metavar="X", help="a draft model: Hub id or folder")
    group.add_argument("--target", metavar="Y", help="a target model: Hub id or folder")
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    group.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: chosen)")
    group.add_argument(
        "--step",
        default="auto",
        choices=STEPS,
        help="through transformers, or without its overhead where the family allows "
        "(default: auto, lean where it gives the same)",
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
    group.add_argument("--ignore-eos", action="store_true", help="run on past the end of the text")


def _add_method(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("method")
    group.add_argument(
        "--drafter",
        choices=tuple(DRAFT_METHODS),
        default=DEFAULTS.drafter,
        help=f"who proposes: {DRAFTERS_IN_WORDS} (default: {DEFAULTS.drafter})",
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
    parser.add_argument("--json", action="store_true", help="print one JSON object and no more")


def config_from(options: argparse.Namespace) -> RunConfig:
    """The run's settings; raises ConfigError for a setting that is wrong or has no effect."""
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
    )
    if config.lossless and (config.epsilon > 0 or config.residual != "leftover"):
        raise ConfigError(
            "--epsilon and --residual act only on the over-acceptance rule.",
            remedy="Add --rule over-accept, or leave them out.",
        )
    return config


def check_pair(options: argparse.Namespace, *, needs_draft: bool) -> None:
    """Raise ConfigError for a choice of models that names too many or too few."""
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
    """The pair as it is asked for; raises ConfigError for a device, dtype or count there is not."""
    return PairSpec(
        name=options.pair,
        draft=options.draft,
        target=options.target,
        device=options.device,
        dtype=options.dtype,
        step=options.step,
        threads=options.threads,
    )


def prompt_from(argument: str) -> str:
    """The prompt; from standard input for ``-``, less its last line end."""
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


def check_out(path: Path, option: str = "--out") -> None:
    """Raise ConfigError unless a file can be written at ``path``."""
    try:
        _check_place(path, Path(os.path.realpath(path)), option)
    except (OSError, ValueError) as error:  # too long a name; a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{option}: {path} cannot be written: {reason}.", remedy="Give another name."
        ) from None


def _check_place(path: Path, real: Path, option: str) -> None:
    """``real`` is where a link leads, for that is what is written."""
    for folder in (path.parent, real.parent):
        if not folder.is_dir():
            raise ConfigError(f"{option}: there is no folder {folder}.", remedy="Make it first.")
    there = os.path.lexists(real)
    if real.is_dir():
        raise ConfigError(f"{option}: {path} is a folder.", remedy="Give the name of a file.")
    if there and not real.is_file():
        raise ConfigError(f"{option}: {path} is not a file.", remedy="Give the name of a file.")
    # What stands there is replaced, not written over: that is for the folder to allow.
    if not (os.access(real.parent, os.W_OK) and (not there or os.access(real, os.W_OK))):
        raise ConfigError(
            f"{option}: {path} cannot be written.", remedy="Choose a place you may write to."
        )
