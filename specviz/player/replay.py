"""Write a run or a comparison as one HTML file that plays from disk without a network.

The player is inline; the page's content security policy allows that one script and no request. All
foreign text is JSON without markup, which the player draws as text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from specviz.comparison import Comparison, LaneRun, basis, body_facts, settings_of
from specviz.comparison.table import as_texts, legend
from specviz.errors import ConfigError
from specviz.figures.body_words import SpeedupWithoutBody, body_sizes
from specviz.figures.metrics import Metrics
from specviz.player.payload import JsonObject, payload_of_trace
from specviz.player.player_source import replay_source
from specviz.player.racing import prompts_raced, race_payload, representatives
from specviz.player.server_payload import server_payload_of
from specviz.record.run_config import RunConfig, method_words
from specviz.record.server_run import AnyTrace, ServerTrace
from specviz.record.trace import Trace

_RUN_ID = "replay"
_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>specviz replay</title>
<style>{style}</style>
</head>
<body>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def replay_html(
    trace: AnyTrace,
    figures: Metrics | None = None,
    own_speedup: SpeedupWithoutBody | None = None,
    *,
    forked: Trace | None = None,
    moment: Mapping[str, str] | None = None,
) -> str:
    """Return a page with one run in the player.

    Args:
        figures: The metrics of the trace, if already computed.
        own_speedup: The speedup of the same pair without bodies, if the run has some.
        forked: The run that this one was forked from.
        moment: Where to open the run, as query parameters of a link.
    """
    if isinstance(trace, ServerTrace):
        player = server_payload_of(trace, run_id=_RUN_ID, state="recorded", label="recorded")
    else:
        player = payload_of_trace(
            trace, run_id=_RUN_ID, state="recorded", label="recorded", figures=figures,
            own_speedup=own_speedup, forked=forked,
        )  # fmt: skip
    player["moment"] = dict(moment) if moment else None
    return _document(player, title=_pair(trace), facts=_facts(trace))


def comparison_html(
    comparison: Comparison, measured: Sequence[LaneRun], *, item: int | None = None
) -> str:
    """Return a page with a comparison and its race on a prompt.

    Args:
        item: The index of the prompt, by default the first that all lanes ran.

    Raises:
        ConfigError: Not all lanes have a run on the prompt.
    """
    raced = prompts_raced(comparison, measured)
    item = raced[0] if item is None and raced else item
    if item not in raced:
        raise ConfigError(
            "Not every lane has a run on this prompt, so there is no race to save.",
            remedy="Continue the comparison until every lane has one.",
        )
    runs = representatives(comparison, measured, item)
    return comparison_replay_html(
        [lane.label for lane in comparison.lanes],
        [run.trace for run in runs],
        figures=[run.figures for run in runs],
        verdict=comparison.verdict.text,
        table=as_texts(comparison),
        facts=[
            settings_of(comparison.plan),
            basis(comparison),
            *_prompt(comparison, item),
            legend(comparison),
            *body_facts(comparison, measured),
        ],
    )


def _prompt(comparison: Comparison, item: int) -> list[str]:
    """Return which prompt the race is on, if there are several."""
    items = comparison.plan.items
    if len(items) == 1:
        return []
    kind = items[item].kind
    return [f"race on prompt {item + 1} of {len(items)}{f', {kind}' if kind else ''}"]


def comparison_replay_html(
    labels: Sequence[str],
    traces: Sequence[AnyTrace],
    *,
    verdict: str,
    table: Sequence[Sequence[str]] = (),
    facts: Sequence[str] = (),
    figures: Sequence[Metrics | None] | None = None,
    by_turns: bool = True,
) -> str:
    """Return a page with the verdict, the table (its head first) and the race in the player."""
    assert len({len(row) for row in table}) <= 1, "a table has rows of one length"
    pairs = list(dict.fromkeys(_pair(trace) for trace in traces))
    return _document(
        race_payload(labels, traces, figures=figures, by_turns=by_turns),
        title=f"{len(traces)} lanes: {', '.join(pairs)}",
        facts=[*facts, *_where_and_when(traces[0]), *_other_engine_facts(traces[1:])],
        verdict=verdict,
        table=table,
    )


def _document(
    player: JsonObject,
    *,
    title: str,
    facts: Sequence[str],
    verdict: str = "",
    table: Sequence[Sequence[str]] = (),
) -> str:
    script, style = replay_source()
    assert not re.search("</|<!--", script), "the script would end its own element"
    about = {"title": title, "verdict": verdict, "facts": list(facts), "table": table}
    return _DOCUMENT.format(
        policy=_policy(script),
        style=style,
        data=script_json({"about": about, "player": player}),
        script=script,
    )


def _policy(script: str) -> str:
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> str:
    """Return JSON for a script element: ASCII only, without characters special to HTML."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _pair(trace: AnyTrace) -> str:
    if isinstance(trace, ServerTrace):
        return trace.info.model
    return trace.pair.name if trace.pair.draft else trace.pair.target.name


def _facts(trace: AnyTrace) -> list[str]:
    if isinstance(trace, ServerTrace):
        return _answer_facts(trace)
    config = trace.config
    sampling = "greedy" if config.greedy else f"T {config.temperature:g}"
    bodies = [words] if (words := body_sizes(trace.pair)) else []
    forks = [f"forked at {each.words}" for each in config.forks]
    gamma = [] if config.branching else [f"γ {config.gamma}"]
    method = [*method_words(config), *_drafter(config)]
    return [*gamma, sampling, *method, *forks, *bodies, *_where_and_when(trace)]


def _drafter(config: RunConfig) -> list[str]:
    return [] if config.drafter == RunConfig().drafter else [config.draft_method.words]


def _other_engine_facts(traces: Sequence[AnyTrace]) -> list[str]:
    answers = [each for each in traces if isinstance(each, ServerTrace)]
    return list(dict.fromkeys(fact for each in answers for fact in _where_and_when(each)))


def _answer_facts(trace: ServerTrace) -> list[str]:
    gamma, temperature = trace.info.gamma, trace.settings.temperature
    known = [] if gamma is None else [f"γ {gamma}"]
    sampling = "greedy" if temperature == 0 else f"T {temperature:g}"
    return [*known, sampling, *_where_and_when(trace)]


def _where_and_when(trace: AnyTrace) -> list[str]:
    if isinstance(trace, ServerTrace):
        return [trace.info.title, _when(trace.created)]
    where = trace.environment
    device = where.cpu if where.device == "cpu" else where.device_name
    threads = f", {where.threads} threads" if where.threads > 1 else ""
    return [f"{device}{threads}", where.dtype, _when(trace.created)]


def _when(created: str) -> str:
    return created.replace("T", " ")[:16] + " UTC"
