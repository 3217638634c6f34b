// Draws the head of the player: the state of the run, its result in a sentence, the figures.

import { recall, remember } from "./browser_memory.js";
import { make, setText, setTextOrHide } from "./elements.js";
import { makeHelp } from "./help_tip.js";
import { visibleText } from "./token_text.js";

/** @import { Store } from "./base_store.js" */
/** @import { Figure, Run, Summary } from "./payload.d.ts" */

const MEASURE_KEY = "specviz.measure";

/** @param {Store} store */
export function makeSummary(store) {
  const status = makeStatus();
  const result = makeResult();
  const figures = makeFigures("sum-figures");
  const finer = makeFigures("sum-finer");
  const measure = makeMeasure(finer.element);
  const head = make("div", "sum-head", {}, [status.element, result.element]);
  const body = make("div", "sum-body", {}, [figures.element, measure]);
  const element = make("section", "sum", { "aria-label": "Result" }, [head, body]);
  /** @type {{run?: Run, summary?: Summary}} */
  let drawn = {};
  return {
    element,
    draw() {
      const { run, summary } = store.data;
      if (run && run !== drawn.run) status.update(run);
      if (summary && summary !== drawn.summary) {
        result.update(summary);
        figures.update(summary.figures);
        finer.update(summary.finer);
        measure.hidden = summary.finer.length === 0;
      }
      drawn = { run, summary };
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
  const element = make("div", "sum-status", {}, [pill, lossy, notice]);
  return {
    element,
    /** @param {Run} run */
    update(run) {
      const failed = run.state === "failed";
      pill.dataset.state = run.state;
      setText(label, visibleText(run.label));
      setTextOrHide(detail, failed ? "" : run.detail);
      lossy.hidden = !run.lossy;
      setText(wrong, run.detail || "");
      setText(remedy, run.remedy || "");
      notice.hidden = !(failed || run.remedy);
    },
  };
}

/** The result in a sentence, the reason, the meaning of bodies, and a warning if there is one. */
function makeResult() {
  const lead = make("b");
  const because = make("span", "sum-because");
  const sentence = make("p", "sum-sentence", {}, [lead, " ", because]);
  const bodies = make("p", "sum-bodies");
  const lamp = make("p", "sum-lamp");
  bodies.hidden = lamp.hidden = true;
  return {
    element: make("div", "sum-result", {}, [sentence, bodies, lamp]),
    /** @param {Summary} summary */
    update(summary) {
      setText(lead, summary.sentence || "");
      setText(because, summary.because || "");
      setTextOrHide(bodies, summary.bodies);
      setTextOrHide(lamp, summary.lamp);
    },
  };
}

/** The detailed figures, open or closed as the user left them. @param {HTMLElement} content */
function makeMeasure(content) {
  const details = make("details", "sum-measure", {}, [
    make("summary", "", {}, ["More figures"]),
    content,
  ]);
  details.open = recall(MEASURE_KEY) === "open";
  details.addEventListener("toggle", () => remember(MEASURE_KEY, details.open ? "open" : "shut"));
  return details;
}

/** A row of figures; its cards are reused while the same figures are shown. @param {string} name */
function makeFigures(name) {
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
