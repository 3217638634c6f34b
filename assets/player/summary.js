// Draws the head of the player, above it: the run's state, the verdict in large type, the bar picture
// of a round, and the reasons behind "Why?". Below the race it draws the figures.

import { recall, remember } from "./browser_memory.js";
import { DropCard } from "./drop_card.js";
import { make, setText, setTextOrHide } from "./elements.js";
import { makeHelp } from "./help_tip.js";
import { visibleText } from "./token_text.js";
import { makeCostBars } from "./cost_bars.js";

/** @import { Store } from "./base_store.js" */
/** @import { Figure, Run, Summary } from "./payload.d.ts" */

const MEASURE_KEY = "specviz.measure";

/** @param {Store} store */
export function makeSummary(store) {
  const status = makeStatus();
  const headline = makeHeadline();
  const costBars = makeCostBars();
  const why = makeWhy();
  const foot = make("div", "sum-foot", {}, [costBars.caption, why.element]);
  const element = make("section", "sum", { "aria-label": "Result" }, [
    status.element,
    headline.element,
    costBars.element,
    foot,
  ]);
  /** @type {{run?: Run, summary?: Summary}} */
  let drawn = {};
  return {
    element,
    draw() {
      const { run, summary } = store.data;
      if (run && run !== drawn.run) status.update(run);
      if (summary && summary !== drawn.summary) {
        headline.update(summary);
        costBars.update(summary.round_cost, run);
        why.update(summary);
      }
      drawn = { run, summary };
    },
    close: why.close,
  };
}

/** The figures, four large ones and the others. @param {Store} store */
export function makeFigures(store) {
  const figures = makeCards("sum-figures");
  const finer = makeCards("sum-finer");
  const measure = make("details", "sum-measure", {}, [make("summary", "", {}, ["More figures"]), finer.element]);
  measure.open = recall(MEASURE_KEY) === "open";
  measure.addEventListener("toggle", () => remember(MEASURE_KEY, measure.open ? "open" : "shut"));
  /** @type {Summary|undefined} */
  let drawn;
  return {
    element: make("section", "sum-body", { "aria-label": "Figures" }, [figures.element, measure]),
    draw() {
      const { summary } = store.data;
      if (!summary || summary === drawn) return;
      drawn = summary;
      figures.update(summary.figures);
      finer.update(summary.finer);
      measure.hidden = summary.finer.length === 0;
    },
    close() {},
  };
}

/** The state of the run, and an error with its remedy. */
function makeStatus() {
  const label = make("b", "", { role: "status" });
  const detail = make("span", "sum-detail");
  const pill = make("span", "sum-pill", { "data-testid": "status", "data-state": "loading" }, [
    make("i", "", { "aria-hidden": "true" }),
    label,
    detail,
  ]);
  const lossy = make("span", "sum-lossy", {}, ["lossy: changes the output distribution"]);
  const wrong = make("span");
  const remedy = make("span", "sum-remedy");
  const notice = make("p", "sum-notice", {}, [wrong, " ", remedy]);
  lossy.hidden = notice.hidden = true;
  const element = make("div", "sum-status", {}, [make("div", "sum-line", {}, [pill, lossy]), notice]);
  return {
    element,
    /** @param {Run} run */
    update(run) {
      const failed = run.state === "failed";
      pill.dataset.state = run.state;
      setText(label, visibleText(run.label));
      setTextOrHide(detail, failed ? "" : run.detail);
      pill.title = [label, detail].map((each) => each.textContent).filter(Boolean).join(" · ");
      lossy.hidden = !run.lossy;
      setText(wrong, run.detail || "");
      setText(remedy, run.remedy || "");
      notice.hidden = !(failed || run.remedy);
    },
  };
}

/** The verdict in a few words, with its interval and the simulated sizes. */
function makeHeadline() {
  const words = make("b");
  const span = make("span", "sum-span");
  const sizes = make("span", "sum-span sum-sizes", { "data-testid": "sizes" });
  return {
    element: make("p", "sum-headline", { "data-testid": "headline" }, [words, " ", span, " ", sizes]),
    /** @param {Summary} summary */
    update(summary) {
      setText(words, visibleText(summary.headline));
      setText(span, summary.span);
      setTextOrHide(sizes, summary.sizes);
    },
  };
}

/**
 * A card over the player with the verdict as a sentence, the reason, the meaning of simulated sizes,
 * and a warning.
 */
function makeWhy() {
  const sentence = make("p", "sum-sentence");
  const because = make("p", "sum-because");
  const bodies = make("p", "sum-bodies");
  const lamp = make("p", "sum-lamp");
  const texts = make("div", "sum-reasons", {}, [sentence, because, bodies, lamp]);
  const card = new DropCard("sum-why", make("summary", "", {}, ["Why?"]), texts);
  const { element } = card;
  return {
    element,
    close: () => card.close(),
    /** @param {Summary} summary */
    update(summary) {
      setTextOrHide(sentence, summary.sentence);
      setTextOrHide(because, summary.because);
      setTextOrHide(bodies, summary.bodies);
      setTextOrHide(lamp, summary.lamp);
      element.dataset.warns = String(Boolean(summary.lamp));
      element.hidden = ![sentence, because, bodies, lamp].some((each) => !each.hidden);
    },
  };
}

/** A row of figures; its cards are reused while the same figures are shown. @param {string} name */
function makeCards(name) {
  const element = make("dl", name);
  /** @type {{id: string, element: HTMLElement, update: (figure: Figure) => void}[]} */
  let cards = [];
  return {
    element,
    /** @param {Figure[]} figures */
    update(figures) {
      const same =
        figures.length === cards.length && figures.every((each, i) => each.id === cards[i].id);
      if (!same) {
        cards = figures.map((each) => makeFigure(each.id));
        element.replaceChildren(...cards.map((card) => card.element));
      }
      figures.forEach((each, i) => cards[i].update(each));
    },
  };
}

/** @param {string} id */
function makeFigure(id) {
  const label = make("span", "sum-label");
  const help = makeHelp();
  const value = make("dd", "sum-value", { "data-testid": `figure-${id}`, "data-value": "" });
  const note = make("dd", "sum-note");
  const element = make("div", "sum-figure", {}, [
    make("dt", "", {}, [label, help.element]),
    value,
    note,
  ]);
  return {
    id,
    element,
    /** @param {Figure} figure */
    update(figure) {
      setText(label, figure.label);
      setText(value, figure.shown);
      value.classList.toggle("sum-none", figure.shown === "–");
      value.dataset.value = figure.value === null ? "" : String(figure.value);
      setText(note, figure.note);
      help.update(figure.label, figure.help);
    },
  };
}
