"""Read the values of options, and check them without loading a model."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from specviz.cli.chat_default import uses_chat
from specviz.cli.standard_streams import read_input
from specviz.comparison.plan import Lane, parse_lane
from specviz.errors import ConfigError, PromptError
from specviz.local_models.naming import (
    check_drafter,
    with_drafter,
    with_fitting_drafter,
    with_places,
)
from specviz.record.drafters import chosen_drafter, first_method
from specviz.record.forks import parse_forks
from specviz.record.limits import TIMING
from specviz.record.pairs import LIBRARY, PairSpec
from specviz.record.prompts import MAX_SUITE_BYTES, SuiteItem, chat_suite, read_suite
from specviz.record.run_config import RunConfig, refuse_without_effect
from specviz.record.shapes import parse_dynamic_tree, parse_shape
from specviz.store.text_files import read_text

_NAMES = "Give a name from `python -m specviz models`, a Hub id, a folder or a GGUF file."
# Settings with the same name and the same value as their option.
_OF_A_RUN = (
    "temperature", "top_k", "top_p", "max_new_tokens", "seed", "draft_until", "num_drafts",
    "replacement", "rule", "epsilon", "residual", "ignore_eos",
)  # fmt: skip
_GAMMA = RunConfig().gamma
_OF_A_PAIR = (
    "draft", "target", "device", "dtype", "step", "threads", "target_body", "draft_body",
    "target_weights", "draft_weights", "other_target",
)  # fmt: skip


def config_from(options: argparse.Namespace) -> RunConfig:
    """Return the settings of a run; raise ConfigError if a setting is invalid or has no effect.

    The default drafter for a target without a draft is prompt lookup. If neither --chat nor
    --no-chat is given, ``chat`` is false here; ``with_chat`` applies the default.
    """
    check_models(options)
    spec = spec_from(options)
    drafter = options.drafter or first_method(spec.draft_kind).name
    check_drafter(spec, chosen_drafter(drafter).method)
    config = RunConfig(
        **_same_named(options, _OF_A_RUN),
        gamma=_GAMMA if options.gamma is None else options.gamma,
        drafter=drafter,
        branching=parse_shape(options.branching),
        dynamic_tree=parse_dynamic_tree(options.dynamic_tree),
        stop=tuple(options.stop),
        chat=bool(options.chat),
        forks=parse_forks("+".join(options.fork)),
    )
    refuse_without_effect(config, "The run")
    return config


def _same_named(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def with_chat(config: RunConfig, options: argparse.Namespace) -> RunConfig:
    """Return the settings with ``chat`` set.

    Without --chat or --no-chat, ``chat`` is true if the target has a chat template.
    """
    return replace(config, chat=uses_chat(options.chat, spec_from(options)))


def check_budget(options: argparse.Namespace) -> None:
    if options.budget is not None and options.budget not in TIMING:  # refuses NaN, too
        raise ConfigError(f"--budget is {options.budget}.", remedy=f"Give seconds, {TIMING}.")


def check_pair(options: argparse.Namespace, *, needs_draft: bool) -> None:
    """Raise ConfigError if ``check_models`` does, or if a needed draft model is missing."""
    check_models(options)
    spec = spec_from(options)
    if needs_draft and spec.head:
        raise ConfigError(
            "This command needs a draft model, but the given draft is a head.",
            remedy="Give a pair with a draft model.",
        )
    if needs_draft and not spec.has_draft:
        copies = "suffix_texts" in options and not getattr(options, "broken", None)
        lookup = ", or use --drafter prompt-lookup" if copies else ""
        if spec.embedded:
            raise ConfigError(
                f"{spec.label} has no draft.",
                remedy=f"Replace --pair with --target and --draft{lookup}.",
            )
        raise ConfigError(
            "--target needs --draft.", remedy=f"Give both --target and --draft{lookup}."
        )


def check_models(options: argparse.Namespace) -> None:
    """Raise ConfigError if --pair, --target and --draft do not fit together.

    A name must not be empty, --pair excludes --target and --draft, and --draft needs --target.
    """
    check_names(options)
    if options.pair is not None and (options.draft is not None or options.target is not None):
        raise ConfigError(
            "--pair excludes --draft and --target.",
            remedy="Give --pair alone, or --target and --draft.",
        )
    if options.draft is not None and options.target is None:
        raise ConfigError("--draft needs --target.", remedy="Add --target, or give --pair alone.")


def check_names(options: argparse.Namespace) -> None:
    """Raise ConfigError if the name of a pair or model is empty.

    Other code would treat "" as a missing name.
    """
    drafts = options.draft if isinstance(options.draft, list) else [options.draft]
    for option, names, remedy in (
        ("--pair", [options.pair], "Give the name of a pair, or omit it for the default."),
        ("--target", [options.target], _NAMES),
        ("--draft", drafts, _NAMES),
    ):
        if any(name is not None and not name.strip() for name in names):
            raise ConfigError(f"{option} is empty.", remedy=remedy)


def spec_from(options: argparse.Namespace) -> PairSpec:
    """Return the pair that the options name; raise ConfigError for an invalid setting."""
    asked = PairSpec(
        name=options.pair,
        **_same_named(options, _OF_A_PAIR),
        shared_vocabulary=options.shared_vocabulary == "yes",
        suffix_texts=getattr(options, "suffix_texts", ""),  # some commands lack the option
    )
    return with_drafter(with_places(asked), getattr(options, "drafter", None) or "")


def named_lane(text: str, default: Lane) -> Lane:
    """Return the lane (a pair with settings) that --lane or --candidate describes.

    If the text names a draft, the lane drafts with it, even if the default pair has no draft.
    """
    lane = parse_lane(text, default)
    spec, config = with_places(lane.spec), lane.config
    if "drafter=" in text:
        spec = with_drafter(spec, config.drafter)
    elif config.drafter == first_method(default.spec.draft_kind).name:
        config = replace(config, drafter=first_method(spec.draft_kind).name)
    else:
        config = with_fitting_drafter(config, spec)
    check_drafter(spec, config.draft_method)
    return replace(lane, spec=spec, config=config)


def check_texts(options: argparse.Namespace, configs: Iterable[RunConfig]) -> None:
    """Raise ConfigError if no run uses the given --suffix-texts, or if its file is missing."""
    where = options.suffix_texts
    if where and not any(each.draft_method.takes_texts for each in configs):
        raise ConfigError(
            "--suffix-texts needs --drafter suffix.",
            remedy="Remove it, or add --drafter suffix.",
        )
    if where not in ("", LIBRARY) and not Path(where).is_file():
        raise ConfigError(
            f"--suffix-texts: there is no file {where}.", remedy=f"Name a text file, or {LIBRARY}."
        )


def items_from(options: argparse.Namespace) -> tuple[SuiteItem, ...]:
    """Return the prompts of --suite, --tasks or --prompt; empty if none is given."""
    if options.tasks:
        return chat_suite()
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
