"""Groups of options that several commands share."""

from __future__ import annotations

import argparse
from typing import get_args

from specviz.cli.option_kinds import add_file, add_flag, add_number
from specviz.installation import INSTALL_RAY
from specviz.record.bodies import NO_BODY
from specviz.record.drafters import DRAFTERS_IN_WORDS
from specviz.record.limits import LIMITS
from specviz.record.pairs import CHAT_HEAD, LIBRARY, QUANTISED, STEPS, PairSpec, default_gamma
from specviz.record.rules import RULES, RULES_IN_WORDS
from specviz.record.run_config import ResidualName, RunConfig
from specviz.record.stopping import STOPPINGS_IN_WORDS

DEFAULTS = RunConfig()
_DEFAULT_METHOD = (
    {
        name: getattr(DEFAULTS, name)
        for name in ("draft_until", "num_drafts", "replacement", "rule", "epsilon", "residual")
    }
    | {"branching": "", "dynamic_tree": ""}
    | {"drafter": None}
)  # None: the first that fits the pair


def add_hardware(group: argparse._ActionsContainer, threads: int | None = None) -> None:
    """Add the options that choose where and in which number format models run."""
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    group.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16")
    group.add_argument(
        "--threads",
        type=int,
        default=threads,
        metavar="N",
        help=f"CPU threads (default: {threads or 'automatic'})",
    )


def add_prompts(
    parser: argparse.ArgumentParser, *, required: bool = False, default: str = ""
) -> None:
    """Add --prompt, --suite, --presets and --tasks, of which at most one may be given.

    ``default`` is appended to the help of --presets.
    """
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument("--prompt", metavar="TEXT", help="one prompt; - reads standard input")
    add_file(
        group, "suite",
        "JSONL: a prompt and, optionally, its kind on every line; or the questions of "
        "MT-bench, Spec-Bench or HumanEval",
    )  # fmt: skip
    add_flag(group, "presets", f"the prompts of the dashboard{default}")
    add_flag(group, "tasks", "sixty prompts for chat models, grouped by task")


def add_no_baseline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not measure the target alone",
    )


def add_budget(parser: argparse.ArgumentParser, default: float) -> None:
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="time limit for timing the target alone; timing ends sooner once the speedup "
        f"is known to ± 5 %% (default: {default:g})",
    )


def add_pair(
    parser: argparse.ArgumentParser,
    *,
    threads: int | None = None,
    target_body: str = NO_BODY,
    drafts: bool = False,
) -> None:
    """Add the options that choose and load models; ``drafts``: --draft may be repeated."""
    group = parser.add_argument_group("models")
    group.add_argument("--pair", metavar="NAME", help="name of a pair (default: the embedded pair)")
    if drafts:
        group.add_argument(
            "--draft", action="append", default=[], metavar="X",
            help="a draft model, named in the same ways as --target; repeatable",
        )  # fmt: skip
    else:
        group.add_argument(
            "--draft", metavar="X",
            help="a draft model or a drafting head, named in the same ways as --target; mtp: the "
            "target's own MTP layers",
        )  # fmt: skip
    group.add_argument(
        "--target", metavar="Y",
        help="a target model: a name from `models`, a Hub id, a folder or a GGUF file",
    )  # fmt: skip
    for role, body in (("target", target_body), ("draft", NO_BODY)):
        group.add_argument(
            f"--{role}-body",
            default=body,
            metavar="SIZE",
            help=f"enlarge the {role} to a size such as 90M, or to the shape of a well-known model "
            f"such as llama-3.2-1b: higher cost, same output (default: {body})",
        )
    for role in ("target", "draft"):
        group.add_argument(
            f"--{role}-weights", metavar="TYPE", default="auto",
            help=f"auto: the {role}'s weights as stored; float: in floating point; or quantise "
            f"them to {', '.join(QUANTISED)} (default: auto)",
        )  # fmt: skip
    group.add_argument(
        "--shared-vocabulary",
        choices=("yes", "no"),
        default="no",
        help="yes: the tokenizers may differ; the draft proposes only tokens that both models have "
        "(default: no)",
    )
    add_flag(group, "other-target", "load a head although its files name another target")
    add_hardware(group, threads)
    group.add_argument(
        "--step",
        default="auto",
        choices=STEPS,
        help="library: transformers; lean: less overhead, for some model families; graphed: "
        "like lean, but whole rounds run on the device (default: auto, which chooses the last of "
        "these that runs here with the same output)",
    )


_NUMBERS = {
    "gamma": (int, f"candidates drafted per round, {LIMITS['gamma']}"),
    "temperature": (float, "0 is greedy"),
    "top-k": (int, "0 is off"),
    "top-p": (float, "1 is off"),
    "max-new-tokens": (int, f"the length limit, {LIMITS['max_new_tokens']}"),
    "seed": (int, "the same seed gives the same run"),
}


def add_numbers(group: argparse._ArgumentGroup, *names: str) -> None:
    """Add the options with these names, such as ``temperature``, and their defaults."""
    for name in names:
        kind, text = _NUMBERS[name]
        default = getattr(DEFAULTS, name.replace("-", "_"))
        own, head = (default_gamma(each) for each in (PairSpec(), PairSpec(name=CHAT_HEAD)))
        small = f"; in `run`, {own} for the embedded pair at its own size, {head} for {CHAT_HEAD}"
        is_gamma = name == "gamma"
        group.add_argument(
            f"--{name}",
            type=kind,
            default=None if is_gamma else default,
            metavar="N",
            help=f"{text} (default: {default}{small if is_gamma else ''})",
        )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    add_numbers(group, *_NUMBERS)
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop at TEXT; repeatable"
    )
    group.add_argument(
        "--fork", action="append", default=[], metavar="FORK",
        help="ROUND:PLACE:TOKEN overrules the verdict on the candidate with token id TOKEN, at "
        "position PLACE of round ROUND. Rounds and positions count from 1. ROUND:PLACE:TOKEN=DRAW "
        "replaces the candidate's random draw. At temperature 0, ROUND:PLACE:TOKEN>INSTEAD "
        "replaces the target's likeliest token by the id INSTEAD. Repeatable",
    )  # fmt: skip
    add_flag(group, "ignore-eos", "continue after an end-of-text token")


def add_requested_sampling(group: argparse._ArgumentGroup) -> None:
    """Add the options that are sent to a serving engine with each prompt."""
    add_numbers(group, "temperature", "top-k", "top-p", "max-new-tokens", "seed")
    add_flag(group, "chat", "use the engine's chat endpoint")


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chat",
        action=argparse.BooleanOptionalAction,
        help="put prompts into the target's chat template (default: if the target has one)",
    )


def _add_method(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("method")
    group.add_argument(
        "--drafter",
        metavar="NAME",
        help=f"how candidates are drafted: {DRAFTERS_IN_WORDS} (default: {DEFAULTS.drafter}; "
        "without a draft, prompt-lookup)",
    )
    group.add_argument(
        "--suffix-texts",
        default="",
        metavar="WHERE",
        help=f"further texts for suffix lookup: {LIBRARY} (the stored runs of this target) or a "
        "text file",
    )
    group.add_argument(
        "--draft-until",
        default=DEFAULTS.draft_until,
        metavar="WHEN",
        help=f"when drafting ends: {STOPPINGS_IN_WORDS} (default: {DEFAULTS.draft_until})",
    )
    add_number(
        group, "num-drafts", DEFAULTS.num_drafts,
        f"chains drafted side by side and verified together, {LIMITS['num_drafts']}",
    )  # fmt: skip
    group.add_argument(
        "--no-replacement",
        dest="replacement",
        action="store_false",
        help="let no two chains begin with the same token",
    )
    group.add_argument(
        "--branching",
        default="",
        metavar="TREE",
        help="draft a tree, such as 3x2x1x1: three candidates, two after each of them, and so on",
    )
    group.add_argument(
        "--dynamic-tree",
        default="",
        metavar="WIDTHxCANDIDATES",
        help="draft a tree as EAGLE-2 does, such as 8x24: at each of the γ depths, expand the 8 "
        "nodes with the likeliest paths into at most 8 children each; verify at most 24 candidates",
    )
    group.add_argument(
        "--rule",
        choices=tuple(RULES),
        default=DEFAULTS.rule,
        help=f"how candidates are accepted: {RULES_IN_WORDS} (default: {DEFAULTS.rule})",
    )
    add_number(
        group, "epsilon", DEFAULTS.epsilon, "what over-accept adds to the target's probability"
    )
    group.add_argument(
        "--residual",
        choices=get_args(ResidualName),
        default=DEFAULTS.residual,
        help=f"the residual that over-accept resamples from (default: {DEFAULTS.residual})",
    )


def add_decoding(
    parser: argparse.ArgumentParser, *, method: bool = True, drafts: bool = False
) -> None:
    """Add the options that choose models, and how they decode.

    Without ``method``, the command gets the default method. ``drafts``: --draft may be repeated.
    """
    add_pair(parser, drafts=drafts)
    _add_sampling(parser)
    if method:
        _add_method(parser)
    else:
        parser.set_defaults(**_DEFAULT_METHOD)
    _add_chat(parser)


def add_running_engines(parser: argparse.ArgumentParser) -> None:
    """Add the options that compare running engines with specviz."""
    group = parser.add_argument_group(
        "running engines",
        "A bearer key is read from SPECVIZ_SERVER_KEY and sent only to the addresses in "
        "SPECVIZ_SERVER_KEY_FOR.",
    )
    group.add_argument(
        "--against", action="append", default=[], metavar="URL",
        help="compare the acceptance of a running engine with that of specviz, for the same head "
        "and prompts; give the option twice to compare two engines",
    )  # fmt: skip
    group.add_argument(
        "--prompts", type=int, metavar="N",
        help="number of prompts for --against; each prompt is sent three times at temperature 0 "
        "and, if --temperature is not 0, once at that temperature; an answer has at most "
        "64 tokens (default: 16)",
    )  # fmt: skip
    add_allow_remote(group)


def add_served_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the model of a serving engine, and its baseline."""
    parser.add_argument(
        "--baseline", metavar="URL", help="address of the same model without speculation"
    )
    parser.add_argument("--model", metavar="NAME", help="the model, if the engine serves several")


def add_allow_remote(parser: argparse._ActionsContainer) -> None:
    add_flag(
        parser, "allow-remote",
        "allow an address on another machine, which then receives the prompts",
    )  # fmt: skip


def add_json(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "json", "print one JSON object and nothing else")


def add_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="ray[:HOST:PORT]",
        help="run on the devices of a Ray cluster: at this address, else at RAY_ADDRESS, else on "
        f"this machine's cores; needs Ray (`{INSTALL_RAY}`)",
    )
