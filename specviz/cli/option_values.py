"""Read the values of options, and check them without loading a model."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from specviz.cli.standard_streams import read_input
from specviz.errors import ConfigError, PromptError
from specviz.record.forks import parse_forks
from specviz.record.limits import TIMING
from specviz.record.pairs import LIBRARY, PairSpec
from specviz.record.prompts import MAX_SUITE_BYTES, SuiteItem, read_suite
from specviz.record.run_config import RunConfig, refuse_without_effect
from specviz.record.shapes import parse_shape
from specviz.store.text_files import read_text


def config_from(options: argparse.Namespace) -> RunConfig:
    """Return the settings; raise ConfigError for one that is invalid or has no effect."""
    config = RunConfig(
        gamma=options.gamma,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        max_new_tokens=options.max_new_tokens,
        seed=options.seed,
        drafter=options.drafter,
        draft_until=options.draft_until,
        num_drafts=options.num_drafts,
        replacement=options.replacement,
        branching=parse_shape(options.branching),
        rule=options.rule,
        epsilon=options.epsilon,
        residual=options.residual,
        ignore_eos=options.ignore_eos,
        stop=tuple(options.stop),
        chat=options.chat,
        forks=parse_forks("+".join(options.fork)),
    )
    refuse_without_effect(config, "The run")
    return config


def check_budget(options: argparse.Namespace) -> None:
    if options.budget is not None and options.budget not in TIMING:  # refuses NaN, too
        raise ConfigError(f"--budget is {options.budget}.", remedy=f"Give seconds, {TIMING}.")


def check_pair(options: argparse.Namespace, *, needs_draft: bool) -> None:
    """Raise ConfigError if too many or too few models are named, or a name is empty."""
    check_names(options)
    if options.pair is not None and (options.draft is not None or options.target is not None):
        raise ConfigError(
            "--pair excludes --draft and --target.",
            remedy="Give a pair by name, or its two models.",
        )
    if options.draft is not None and options.target is None:
        raise ConfigError("--draft needs --target.", remedy="Give both, or --pair NAME.")
    if options.target is not None and options.draft is None and needs_draft:
        raise ConfigError(
            "--target needs --draft.", remedy="Give both, or use --drafter prompt-lookup."
        )
    spec_from(options)


def check_names(options: argparse.Namespace) -> None:
    """Raise ConfigError for an empty name, which would count as no name."""
    drafts = options.draft if isinstance(options.draft, list) else [options.draft]
    for option, names, remedy in (
        ("--pair", [options.pair], "Give the name of a pair, or leave it out for the default."),
        ("--target", [options.target], "Give a Hub id or a folder."),
        ("--draft", drafts, "Give a Hub id or a folder."),
    ):
        if any(name is not None and not name.strip() for name in names):
            raise ConfigError(f"{option} is empty.", remedy=remedy)


def spec_from(options: argparse.Namespace) -> PairSpec:
    """Return the requested pair; raise ConfigError for an invalid setting."""
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
        shared_vocabulary=options.shared_vocabulary == "yes",
        suffix_texts=getattr(options, "suffix_texts", ""),  # only where runs are decoded
    )


def check_texts(options: argparse.Namespace, configs: Iterable[RunConfig]) -> None:
    """Raise ConfigError if no run uses --suffix-texts, or if the named file does not exist."""
    where = options.suffix_texts
    if where and not any(each.draft_method.takes_texts for each in configs):
        raise ConfigError("--suffix-texts needs --drafter suffix.", remedy="Remove it.")
    if where not in ("", LIBRARY) and not Path(where).is_file():
        raise ConfigError(
            f"--suffix-texts: there is no file {where}.", remedy=f"Name a text file, or {LIBRARY}."
        )


def items_from(options: argparse.Namespace) -> tuple[SuiteItem, ...]:
    """Return the prompts of --suite or --prompt; empty if neither is given."""
    if options.suite is not None:
        text = read_text(options.suite, "--suite", MAX_SUITE_BYTES)
        return read_suite(text, str(options.suite))
    if options.prompt is not None:
        return (SuiteItem(prompt=prompt_from(options.prompt)),)
    return ()


def prompt_from(argument: str) -> str:
    """Return the prompt; ``-`` reads standard input, without the final line break."""
    text = _standard_input() if argument == "-" else argument
    if not text:
        raise PromptError("The prompt is empty.", remedy="Give at least one character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PromptError("The prompt is not UTF-8.", remedy="Give it in UTF-8.") from None
    return text


def _standard_input() -> str:
    # Invalid UTF-8 becomes lone surrogates, which the caller refuses.
    text = read_input().decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    return text.removesuffix("\n")
