"""Write a run or a comparison as one HTML file that plays from disk without a network.

The player is an inline script. The page's content security policy allows only this script, and no
requests.
Text from models and users is in the JSON data, never in the HTML; the player draws it as text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any

from specviz.comparison import Comparison, LaneRun, basis, body_facts, settings_of
from specviz.comparison.table import as_texts, legend
from specviz.errors import ConfigError
from specviz.figures.body_words import SpeedupWithoutBody
from specviz.figures.metrics import Metrics
from specviz.player.any_run import payload_of_run
from specviz.player.player_source import replay_source
from specviz.player.racing import (
    prompts_raced,
    race_payload,
    representative_details,
    representatives,
)
from specviz.player.round_values import JsonObject
from specviz.record.pairs import pair_title
from specviz.record.server_run import AnyTrace
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
    name: str = "",
    forked: Trace | None = None,
    moment: Mapping[str, str] | None = None,
) -> str:
    """Return a page with one run in the player.

    Args:
        figures: The metrics of the trace, if already computed.
        own_speedup: The pair's speedup at its real size, if the run has simulated sizes.
        name: The user's name of the run.
        forked: The run from which this run was forked.
        moment: Where to open the run, as query parameters of a link.
    """
    player = payload_of_run(
        trace, run_id=_RUN_ID, state="recorded", label="recorded", figures=figures,
        own_speedup=own_speedup, forked=forked,
    )  # fmt: skip
    player["moment"] = dict(moment) if moment else None
    facts = (*trace.facts.settings, *_where_and_when(trace))
    title = ": ".join(each for each in (name, pair_title(trace.facts.name)) if each)
    return _document(player, title=title, facts=facts)


def comparison_html(
    comparison: Comparison, measured: Sequence[LaneRun], *, item: int | None = None
) -> str:
    """Return a page with a comparison and its race on a prompt.

    Args:
        item: The index of the prompt; by default, of the first prompt that all lanes ran.

    Raises:
        ConfigError: Not all lanes have a run on the prompt.
    """
    raced = prompts_raced(comparison, measured)
    item = raced[0] if item is None and raced else item
    if item not in raced:
        raise ConfigError(
            "Not every lane has a run on this prompt, so there is no race to save.",
            remedy="Continue the comparison until every lane has a run.",
        )
    runs = representatives(comparison, measured, item)
    return comparison_replay_html(
        [lane.label for lane in comparison.lanes],
        [run.trace for run in runs],
        figures=[run.figures for run in runs],
        details=representative_details(comparison, measured),
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
    """Return a list with a description of the race's prompt; empty if there is only one prompt."""
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
    figures: Sequence[Metrics] | None = None,
    by_turns: bool = True,
    details: Sequence[str] = (),
) -> str:
    """Return a page with the verdict, the table (header row first) and the race in the player."""
    assert len({len(row) for row in table}) <= 1, "all rows of a table have the same length"
    pairs = dict.fromkeys(pair_title(trace.facts.name) for trace in traces)
    others = [_where_and_when(trace) for trace in traces[1:] if trace.facts.engine]
    return _document(
        race_payload(labels, traces, figures=figures, by_turns=by_turns, details=details),
        title=f"{len(traces)} lanes: {', '.join(pairs)}",
        facts=[*facts, *_where_and_when(traces[0]), *dict.fromkeys(chain.from_iterable(others))],
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
    assert not re.search("</|<!--", script), "the script contains a tag that ends its element"
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


def _where_and_when(trace: AnyTrace) -> tuple[str, ...]:
    return (*trace.facts.environment, _when(trace.created))


def _when(created: str) -> str:
    return created.replace("T", " ")[:16] + " UTC"
