"""The player's request for the rounds of a lost message."""

from __future__ import annotations

import json

from tests.node import ROOT, run_node

# A page whose script becomes idle after a while, and the requests with the page's state.
PAGE = f"""
import {{ MissingRounds }} from "{(ROOT / "assets/player/missing_rounds.js").as_uri()}";
let state = "rerunRequested";
globalThis.window = globalThis;
globalThis.document = {{ querySelector: () => ({{ getAttribute: () => state }}) }};
const wishes = [];
const missing = new MissingRounds();
missing.send = (name, wish) => wishes.push([state, name, wish.run, wish.start]);
missing.expect({{ id: "a run", rounds: [1, 2] }}, 5);
setTimeout(() => (state = "running"), 120);
setTimeout(() => (state = "notRunning"), 240);
setTimeout(() => {{
  missing.close();
  console.log(JSON.stringify(wishes));
}}, 700);
"""


def test_a_request_waits_until_no_script_runs() -> None:
    output = run_node("--input-type=module", "--eval", PAGE)
    assert json.loads(output) == [["notRunning", "wish", "a run", 2]]
