"""``score``: show acceptance along a text, token by token, for every γ."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

from specviz.cli.option_values import check_pair, config_from, prompt_from, spec_from, with_chat
from specviz.cli.report import to_json
from specviz.cli.scoring_maker import scoring_maker
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table, visible_token
from specviz.comparison.plan import Lane
from specviz.errors import ConfigError
from specviz.figures.token_kinds import by_token_kind
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.record.prompts import MAX_PROMPT, SuiteItem
from specviz.record.scores import ScoredText
from specviz.store.text_files import read_text
from specviz.tune.advice import FOREIGN_TEXT_NOTE
from specviz.tune.answer import Answer
from specviz.tune.question import Question

_SHOWN_GAMMAS = (1, 2, 3, 4, 5, 6, 8, 12, 16)


def command(options: argparse.Namespace) -> int:
    question = _question(options)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        answer = _score(question, options)
    text = answer.candidates[0].texts[0]
    if options.json:
        print(to_json(_record(answer, text)))
    else:
        print(render_score(painter_for(sys.stdout, os.environ), answer, text))
    return 0


def _question(options: argparse.Namespace) -> Question:
    check_pair(options, needs_draft=True)
    text = None
    if options.text_file is not None:
        if options.chat:
            raise ConfigError(
                "--chat applies only to --prompt.",
                remedy="Remove --chat, or replace --text-file with --prompt.",
            )
        options.chat = False
    config = with_chat(config_from(options), options)
    if options.text_file is not None:
        text = read_text(options.text_file, "--text-file", MAX_PROMPT)
        if not text.strip():
            raise ConfigError(f"{options.text_file} has no text.", remedy="Give a file with text.")
    prompt = prompt_from(options.prompt) if text is None else ""
    return Question(
        lanes=(Lane(spec=spec_from(options), config=config),),
        items=(SuiteItem(prompt=prompt),),
        temperatures=(config.temperature,),
        text=text,
    )


def _score(question: Question, options: argparse.Namespace) -> Answer:
    from specviz.tune.tune_job import TuneJob

    # Expected rounds need no step costs, so none are measured.
    job = TuneJob(question, scoring_maker(question.lanes, options), wants_costs=False)
    job.carry_out()
    if job.error is not None:
        raise job.error
    return job.answer


def _record(answer: Answer, text: ScoredText) -> dict[str, Any]:
    from specviz.tune.to_json import scored_to_json

    cells = answer.candidates[0].surface.cells
    taus = [{"gamma": each.gamma, "tau": each.tau} for each in cells]
    return scored_to_json(text) | {"tau": taus}


def render_score(painter: Painter, answer: Answer, text: ScoredText) -> str:
    scores = text.scores
    assert scores is not None
    blocks = [paragraph(painter, _summary(text)), _tokens(painter, text)]
    if scores.impossible_at is None:
        cells = [c for c in answer.candidates[0].surface.cells if c.gamma in _SHOWN_GAMMAS]
        taus = [["γ", *(str(each.gamma) for each in cells)]]
        taus.append(["tokens per round", *(TOKENS.bare(each.tau) for each in cells)])
        blocks.append(table(painter, taus))
    kinds = by_token_kind(text.token_texts, scores.odds)
    columns = [
        ["tokens", *(each.kind for each in kinds)],
        ["count", *(str(each.count) for each in kinds)],
        [
            "acceptance probability",
            *(PROBABILITY.spread(each.odds, each.low, each.high) for each in kinds),
        ],
    ]
    return "\n\n".join([*blocks, table(painter, columns)])


def _summary(text: ScoredText) -> str:
    scores = text.scores
    assert scores is not None
    at = scores.impossible_at
    if at is not None:
        token = visible_token(text.token_texts[at])
        return (
            f"The target cannot write this text with these settings: token {at + 1}, “{token}”, "
            "has probability 0. So there are no expected rounds."
        )
    count = len(text.token_ids)
    mean = sum(scores.odds) / count
    result = f"{count} tokens, mean acceptance probability {PROBABILITY.bare(mean)}."
    if text.doubt:
        return f"{result} {text.doubt}"
    if text.own:
        return f"{result} The target wrote this text with these settings."
    return f"{result} {FOREIGN_TEXT_NOTE}"


def _tokens(painter: Painter, text: ScoredText) -> str:
    """Render every token with its acceptance probability in percent, in rows that fit."""
    assert text.scores is not None
    cells = [
        f"{visible_token(token)} {round(100 * odds)}"
        for token, odds in zip(text.token_texts, text.scores.odds, strict=True)
    ]
    return paragraph(painter, "  ".join(cells))
