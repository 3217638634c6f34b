"""``models``: list the models on this machine, or the drafts that fit a target.

Only file headers are read; no model is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from specviz.cli.interrupts import waiting
from specviz.cli.terminal_text import Painter, one_line, painter_for, table
from specviz.errors import ConfigError
from specviz.local_models.added_folders import add_folders, added_folders, forget_folder
from specviz.local_models.finding import Found, find_models
from specviz.local_models.fitting import Fit, compare_tokenizers, drafts_for
from specviz.local_models.headers import Headers
from specviz.local_models.local_model import LocalModel
from specviz.record.numbers import COUNT, PROBABILITY, SIZE, UNKNOWN, times
from specviz.record.pairs import PairSpec
from specviz.store.load_times import ExpectedLoad, expected_load
from specviz.store.measured_alphas import measured_alphas


def command(options: argparse.Namespace) -> int:
    folders = add_folders(options.models) if options.models else added_folders()
    if options.forget is not None:
        folders = forget_folder(Path(options.forget).expanduser().absolute())
    headers = Headers()
    found = find_models(folders, headers)
    target = None if options.target is None else _target(found, options.target)
    fits = () if target is None else _fits(target, found, headers)
    if options.json:
        for each in found.models:
            headers.fingerprint(each.tokenizer)
        headers.save()
        print(json.dumps(_record(found, target, fits, folders, headers), ensure_ascii=False))
        return 0
    painter = painter_for(sys.stdout, os.environ)
    lines = _drafts(painter, target, fits) if target else _models(painter, found, headers)
    print("\n".join([*lines, *_left_out(found, in_full=options.skipped)]))
    return 0


def _target(found: Found, name: str) -> LocalModel:
    target = found.named(name)
    if target is None:
        raise ConfigError(
            f"There is no model {name!r} on this machine.",
            remedy="Run `python -m specviz models` for a list.",
        )
    return target


def _fits(target: LocalModel, found: Found, headers: Headers) -> tuple[Fit, ...]:
    with waiting("comparing tokenizers"):
        for _ in compare_tokenizers(target, found.models, headers):
            pass
    return drafts_for(
        target, found.models, headers, itemsize=None,
        memory_free=psutil.virtual_memory().available, alphas=measured_alphas(),
    )  # fmt: skip


def _models(painter: Painter, found: Found, headers: Headers) -> Iterator[str]:
    if not found.models:
        yield "No models found. Add a folder with --models DIR."
        return
    rows = [_row(each, _expected_load(each, headers)) for each in found.models]
    heads = (
        "name", "family", "size", "weights", "file", "loads in", "context", "vocabulary", "", "from"
    )  # fmt: skip
    yield table(painter, list(zip(heads, *rows, strict=True)), indent="")
    yield ""
    yield f"Loading times come from earlier loads on this machine; {UNKNOWN}: not measured yet."
    yield "Give a name as --target or --draft; without a name, the embedded pair runs."
    yield "`models --for NAME` lists the drafts that fit; --json also has tokenizer fingerprints."


def _expected_load(model: LocalModel, headers: Headers) -> ExpectedLoad | None:
    """Return the expected time to load the model as a target without a draft."""
    return expected_load(PairSpec(target=model.place), headers)


def _row(model: LocalModel, load: ExpectedLoad | None) -> tuple[str, ...]:
    facts = model.facts
    marks = [word for word, holds in (("chat", facts.chat), (facts.head, facts.head)) if holds]
    return (
        model.short, facts.family, COUNT.shown(facts.parameters),
        f"{facts.format} {facts.quantization}", SIZE.shown(facts.file_bytes),
        load.time if load else UNKNOWN,
        *(f"{each:,}" if each else "?" for each in (facts.context, facts.vocabulary)),
        ", ".join(marks), model.origin,
    )  # fmt: skip


def _drafts(painter: Painter, target: LocalModel, fits: Sequence[Fit]) -> Iterator[str]:
    yield painter.paint(f"Drafts for {one_line(target.name)}", "bold")
    if not fits:
        yield "No smaller model here has the target's tokenizer. Use --drafter prompt-lookup."
        return
    heads = ("name", "size", "target", "tokens", "measured α", "memory")
    rows = [_fit_row(each) for each in fits]
    yield table(painter, list(zip(heads, *rows, strict=True)), indent="")


def _fit_row(fit: Fit) -> tuple[str, ...]:
    share = "?" if fit.share is None else f"{fit.share:.0%} shared"
    memory = {True: "fits", False: "does not fit", None: "?"}
    return (
        fit.model.short, COUNT.shown(fit.model.facts.parameters), f"{times(fit.ratio)} as large",
        "same" if fit.same_tokenizer else share,
        "–" if fit.alpha is None else PROBABILITY.shown(fit.alpha), memory[fit.fits],
    )  # fmt: skip


def _left_out(found: Found, *, in_full: bool) -> Iterator[str]:
    if not found.skipped:
        return
    yield ""
    if not in_full:
        yield f"Not usable: {len(found.skipped)} models. --skipped lists the reasons."
        return
    for each in found.skipped:
        yield one_line(f"{each.name} ({each.origin}): {each.reason}")


def _record(
    found: Found,
    target: LocalModel | None,
    fits: Sequence[Fit],
    folders: Sequence[Path],
    headers: Headers,
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "models": [_model_record(each, headers) for each in found.models],
        "skipped": [
            {"name": each.name, "from": each.origin, "reason": each.reason}
            for each in found.skipped
        ],
        "folders": [str(each) for each in folders],
    }
    if target is not None:
        record["target"] = target.short
        record["drafts"] = [
            {
                "name": fit.model.short, "shared": fit.share, "ratio": fit.ratio,
                "fits": fit.fits, "alpha": fit.alpha,
            }
            for fit in fits
        ]  # fmt: skip
    return record


def _model_record(model: LocalModel, headers: Headers) -> dict[str, Any]:
    facts, load = model.facts, _expected_load(model, headers)
    return {
        "name": model.short, "title": model.name, "place": model.place, "from": model.origin,
        "format": facts.format, "quantization": facts.quantization, "family": facts.family,
        "parameters": facts.parameters, "bytes": facts.file_bytes, "context": facts.context,
        "vocabulary": facts.vocabulary, "chat": facts.chat, "head": facts.head,
        "tokenizer": headers.known_fingerprint(model.tokenizer),
        "load_seconds": [load.low, load.high] if load else None,
        "earlier_loads": load.num_loads if load else 0,
    }  # fmt: skip
