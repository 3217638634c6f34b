"""Whether a pane stays at its end, by the player's own script on a pane without a browser."""

from __future__ import annotations

import json
from typing import Any

from tests.node import ROOT, run_node

# A pane that can be scrolled 100 pixels, followed to its end.
PANE = f"""
import {{ ScrollFollower }} from "{(ROOT / "assets/player/scroll_follower.js").as_uri()}";
const ignore = () => {{}};
globalThis.document = {{
  createElement: () => ({{ setAttribute: ignore, append: ignore, addEventListener: ignore }}),
}};
class Pane {{
  at = 0;
  scrollHeight = 300;
  clientHeight = 200;
  dataset = {{}};
  get scrollTop() {{ return this.at; }}
  set scrollTop(top) {{
    this.at = Math.max(0, Math.min(top, this.scrollHeight - this.clientHeight));
  }}
  addEventListener(_, act) {{ this.scrollBy = (by) => {{ this.scrollTop += by; act(); }}; }}
}}
function follow() {{
  const pane = new Pane();
  const follower = new ScrollFollower(pane, ignore);
  follower.settle();
  return {{ pane, follower }};
}}
const stateOf = ({{ pane, follower }}) => [pane.scrollTop, follower.back.hidden];
"""


def states(script: str) -> Any:
    """Return pixels from the top, and whether the way back is hidden, as the script prints them."""
    return json.loads(run_node("--input-type=module", "--eval", PANE + script))


def test_a_pane_that_the_user_scrolls_up_has_a_way_back() -> None:
    assert states("""
        const one = follow();
        const seen = [stateOf(one)];
        one.pane.scrollBy(-40);
        seen.push(stateOf(one));
        one.follower.goBack();
        console.log(JSON.stringify([...seen, stateOf(one)]));
    """) == [[100, True], [60, False], [100, True]]


def test_a_pane_that_the_browser_scrolls_stays_at_its_end() -> None:
    """With another font, the text is longer, and the browser keeps its first line in place."""
    assert states("""
        const one = follow();
        one.pane.scrollHeight = 360;
        one.pane.scrollBy(-3);
        console.log(JSON.stringify(stateOf(one)));
    """) == [160, True]


def test_a_button_also_leads_back_the_pane_whose_button_is_not_shown() -> None:
    script = """
        const [one, other] = [follow(), follow()];
        one.follower.other = other.follower;
        for (const each of [one, other]) each.pane.scrollBy(-40);
        other.follower.back.offsetParent = %s;
        one.follower.goBack();
        console.log(JSON.stringify([one, other].map(stateOf)));
    """
    assert states(script % "null") == [[100, True], [100, True]]
    assert states(script % "{}") == [[100, True], [60, False]]
