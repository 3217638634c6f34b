// The first view in the browser: the recorded run, playing where Streamlit will draw it. Once the
// page is drawn, the run continues from the same event, and this view is removed.

import { Player } from "./player.js";
import { IN_QUERY } from "./presenter.js";

/** @import { StateOfRun } from "./player.js" */

const LONGEST = 20000; // milliseconds until this view is hidden, even if the page is not drawn
const LOOK_EVERY = 100; // milliseconds

function openFirstStage() {
  const cover = document.getElementById("first-stage");
  const text = document.getElementById("first-run")?.textContent;
  const place = cover?.querySelector("main");
  if (!cover || !place || !text) return;
  const player = new Player(place, IN_QUERY);
  player.chooseTheme();
  player.receive(JSON.parse(text));

  const end = () => {
    clearInterval(looking);
    hide();
    delete window.specvizFirstStage;
  };
  /** @type {((state: StateOfRun|null) => void)|null} */
  let goOn = null;
  const handOver = () => {
    if (!goOn) return;
    goOn(player.stateOfRun());
    goOn = null;
    requestAnimationFrame(() => requestAnimationFrame(end)); // the page has been painted by then
  };
  const hide = () => {
    if (!cover.isConnected) return;
    player.close();
    cover.remove();
    handOver();
  };
  const { pathname } = window.location; // the user may open another page meanwhile
  const isOver = () =>
    window.location.pathname !== pathname ||
    document.querySelector('#root [data-testid="stException"]') !== null;
  const look = () => {
    if (isOver()) end();
    else if (performance.now() > LONGEST) hide();
  };
  const looking = setInterval(look, LOOK_EVERY);
  window.specvizFirstStage = {
    leave: (next) => {
      goOn = next;
      if (cover.isConnected) whenDrawn(handOver);
      else handOver();
    },
  };
}

/** Wait for the page's style and for its button Run or, without one, the note about recorded runs, which the browser may load after the player. @param {() => void} act */
function whenDrawn(act) {
  const styled = getComputedStyle(document.documentElement).getPropertyValue("--shell") !== "";
  if (styled && document.querySelector("#root .st-key-run button, #root .st-key-recorded_note p")) act();
  else requestAnimationFrame(() => whenDrawn(act));
}

openFirstStage();
