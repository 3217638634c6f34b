// The first thing in the browser: the recorded run, playing in the place where Streamlit will draw it.
// Once it is drawn there, it goes on from the same event, and this stage is gone.

import { Player } from "./player.js";
import { IN_QUERY } from "./presenter.js";

const LONGEST = 20000; // milliseconds; a page that has not come by then has something else to say
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
    player.close();
    cover.remove();
    delete window.specvizFirstStage;
  };
  const { pathname } = window.location; // the reader may leave for another page meanwhile
  const isOver = () =>
    performance.now() > LONGEST ||
    window.location.pathname !== pathname ||
    document.querySelector('#root [data-testid="stException"]') !== null;
  const looking = setInterval(() => isOver() && end(), LOOK_EVERY);
  window.specvizFirstStage = {
    state: () => player.stateOfRun(),
    // Two frames later what stands below has been painted.
    leave: () => requestAnimationFrame(() => requestAnimationFrame(end)),
  };
}

openFirstStage();
