"""Moments of a run that a link names, opened by the player's own scripts."""

from __future__ import annotations

import json
from tempfile import NamedTemporaryFile
from typing import Any

from specviz.player.any_run import payload_of_run
from tests.node import ROOT, run_node
from tests.traces import full_trace

PLAYER = ROOT / "assets" / "player"
# Opens the moments in turn; null moves the cursor to the start, as a user may.
SCRIPT = f"""
globalThis.window = globalThis;
globalThis.requestAnimationFrame = () => 1;
const {{ readFileSync }} = await import("node:fs");
const {{ Player }} = await import("{(PLAYER / "player.js").as_uri()}");
const {{ RunStore }} = await import("{(PLAYER / "run_store.js").as_uri()}");
const {{ recordingOf }} = await import("{(PLAYER / "recording.js").as_uri()}");
const {{ data, moments }} = JSON.parse(readFileSync(process.argv[1], "utf8"));
const recording = recordingOf(data.run.id, data.rounds);
recording.append(0, data.rounds.items);
const store = new RunStore();
store.data = data;
store.show(recording, {{ live: false, playing: false }});
const player = Object.assign(Object.create(Player.prototype), {{ opened: "" }});
const shown = moments.map((moment) => {{
  if (moment) player.openMoment(store, {{ ...data, moment }});
  else store.seek(0);
  return {{ ...recording.place(store.cursor), selected: store.selected }};
}});
console.log(JSON.stringify(shown));
"""


def opened(*moments: dict[str, str] | None) -> list[dict[str, Any]]:
    """Return what the player shows after each moment."""
    data = payload_of_run(full_trace(), run_id="a run", state="done", label="a run")
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"data": data, "moments": moments}, file)
        file.flush()
        output = run_node("--input-type=module", "--eval", SCRIPT, "--", file.name)
    return json.loads(output)


def test_a_new_moment_replaces_the_old_one_and_opens_once() -> None:
    first, second = {"round": "2", "step": "1"}, {"round": "3", "step": "2"}
    shown = opened(first, None, first, second, first)
    places = [(each["round"], each["step"]) for each in shown]
    assert places == [(1, 1), (0, 0), (0, 0), (2, 2), (1, 1)]


def test_a_moment_can_select_the_extra_token() -> None:
    entry = next(each for each in full_trace().rounds if each.extra)
    number, place = entry.index + 1, len(entry.candidates)
    link = {"round": str(number), "token": f"{number}.{place + 1}"}
    beyond = {"round": str(number), "token": f"{number}.{place + 2}"}
    shown, without = opened(link)[0], opened(beyond)[0]
    assert shown["selected"] == {"round": entry.index, "place": place}
    assert without["selected"] is None
