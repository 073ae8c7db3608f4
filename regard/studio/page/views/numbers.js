// One attention head as a worked example: every stage with its formula and all its numbers, for one query.

import { direction } from "../direction.js";
import { lacking, readsText, textOf, textbox } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { KINDS } from "../attention_kinds.js";
import { percent, shown } from "../words.js";

export { experiments } from "../experiments/numbers.js";
export const title = "Numbers";
export const about =
  "What one head computes for one token, stage by stage, with the model's own numbers. Purple is positive, orange negative. Point at a number to see how it was computed.";
export const more =
  "The numbers are recomputed from the model's weights, one small step at a time, and compared with what the model itself computed: the difference is stated below the token.";
export const code = ["regard/layers/attend.py:attention_weights", "regard/inspection/record/arithmetic/attention/multi_head.py:multi_head", "regard/inspection/record/arithmetic/stages.py"];
export const suits = (model) => model.attention && readsText(model);
export const lacks = lacking("has no attention");

const BUSY = 10; // milliseconds of drawing before the page may do something else

export function show(place, studio) {
  const box = textbox(studio);
  const controls = make("div", { class: "controls" });
  const tokens = make("div", { class: "query-tokens", role: "group", "aria-label": "Explain which token?" });
  const stages = make("div", { class: "stages" });
  const onwards = make("div", { class: "onwards", role: "group", "aria-label": "Stages" });
  const keys = make("div", { class: "keys", tabindex: "0", role: "group", "aria-label": "Attention weights of this token" });
  const pinned = make("div", { class: "pinned" }, tokens, keys);
  fill(place, box.element, controls, pinned, stages, onwards);
  let last = "";
  let now = null;
  let fresh = true; // a link may begin at a stage
  let figures = [];
  let aimed = null; // the stage that a button scrolls to

  const number = (name) => Math.max(0, Number(studio.state[name] ?? 0) || 0);
  const request = () => ({
    model: studio.model.name,
    text: textOf(studio),
    ...direction(studio),
    attention: KINDS[studio.state.attention] ? studio.state.attention : "cross",
    layer: number("layer"),
    head: number("head"),
    position: number("position"),
  });

  const load = studio.latest(
    (signal, wanted) => studio.ask("numbers", wanted, signal),
    (answer) => {
      now = answer;
      drawControls();
      figures = answer.stages.map((stage, at) => figures[at] ?? make("figure", { class: "stage" }, make("h2", {}, `${at + 1} ${stage.name}`)));
      fill(stages, make("p", { class: "faint" }, `${shown(answer.called)}. ${answer.agreement}`), figures);
      drawKeys();
      drawOnwards();
      drawStages(answer);
      studio.say(answer.called);
    },
    (error, wanted) => {
      now = null;
      stages.setAttribute("aria-busy", "false");
      fill(controls);
      fill(tokens);
      fill(keys);
      fill(onwards);
      fill(stages, trouble(error, () => load(wanted)));
    },
  );
  const later = debounce(load, 250);

  /** One stage after the other: vectors of hundreds of numbers are thousands of marks, and the page must not freeze. */
  async function drawStages(answer) {
    let began = performance.now();
    for (const [at, stage] of answer.stages.entries()) {
      const figure = drawn(stage, at, answer);
      figures[at].replaceWith(figure);
      figures[at] = figure;
      if (performance.now() - began < BUSY && at < answer.stages.length - 1) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (now !== answer) return;
      began = performance.now();
    }
    stages.setAttribute("aria-busy", "false");
    drawOnwards();
    if (fresh && number("stage")) figures[stage()].scrollIntoView({ block: "start" });
    fresh = false;
  }

  function drawn(stage, at, answer) {
    const figure = studio.picture(
      { heading: `${at + 1} ${stage.name}`, svg: stage.svg, about: `${answer.called}. ${stage.sentence}` },
      { onmark: link },
    );
    figure.classList.add("stage");
    figure.dataset.stage = stage.name;
    figure.querySelector("figcaption").after(make("p", { class: "sentence-of" }, stage.sentence));
    return figure;
  }

  function drawControls() {
    const held = [...controls.querySelectorAll("select")].indexOf(document.activeElement);
    const looking = tokens.contains(document.activeElement);
    const { kinds, attention, layer, head, position } = now;
    const upTo = (count) => Array.from({ length: count }, (_, one) => one);
    const pick = (values) => studio.change(values);
    fill(
      controls,
      select("Attention", Object.keys(kinds).map((kind) => [kind, KINDS[kind]]), attention, (value) => pick({ attention: value, position: null })),
      kinds[attention].layers > 1 ? select("Layer", upTo(kinds[attention].layers), layer, (value) => pick({ layer: value })) : null,
      kinds[attention].heads > 1 ? select("Head", upTo(kinds[attention].heads), head, (value) => pick({ head: value })) : null,
    );
    fill(
      tokens,
      make("span", { class: "faint" }, "Explain which token?"),
      kinds[attention].queries.map((token, at) =>
        make(
          "button",
          { type: "button", class: "token", dir: "auto", "aria-pressed": String(at === position), onclick: () => pick({ position: at || null }) },
          make("bdi", {}, shown(token)),
        ),
      ),
    );
    if (held >= 0) controls.querySelectorAll("select")[held]?.focus();
    if (looking) tokens.querySelector('[aria-pressed="true"]')?.focus();
  }

  /** The keys with their weights, which stay in sight with the query while the stages scroll. */
  function drawKeys() {
    const most = Math.max(...now.weights, 1e-12);
    const all = now.keys.map((key, at) => {
      const weight = make("small", {}, percent(now.weights[at]));
      const one = make("span", { class: "key", "data-key": at, "data-weight": now.weights[at] }, make("bdi", {}, shown(key)), weight);
      one.style.setProperty("--weight", now.weights[at] / most);
      one.addEventListener("pointerenter", () => link(` key ${at}`));
      one.addEventListener("pointerleave", () => link(""));
      return one;
    });
    fill(keys, make("span", { class: "faint" }, "attends to"), all);
  }

  // Moving through the stages.

  const stage = () => Math.min(number("stage"), Math.max(0, figures.length - 1));

  function drawOnwards() {
    const at = stage();
    const held = [...onwards.querySelectorAll("button")].indexOf(document.activeElement);
    figures.forEach((figure, place) => figure.classList.toggle("at", place === at));
    const button = (words, to) => make("button", { type: "button", disabled: to < 0 || to >= figures.length, onclick: () => to_stage(to) }, words);
    fill(
      onwards,
      button("↑ Previous", at - 1),
      make("span", { class: "faint" }, `${at + 1} of ${figures.length}: ${now.stages[at].name}`),
      button("Next ↓", at + 1),
    );
    if (held >= 0) onwards.querySelectorAll("button")[held]?.focus();
  }

  /** The stage at the top of what is in sight; at the end of the page, the last one. */
  function follow() {
    const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const top = pinned.getBoundingClientRect().bottom + innerHeight / 4;
    const at = end ? figures.length - 1 : figures.findLastIndex((figure) => figure.getBoundingClientRect().top <= top);
    if (aimed !== null) {
      if (Math.abs(at - aimed) > 0 && !end) return; // on its way
      aimed = null;
      return;
    }
    if (now && at !== stage()) studio.change({ stage: Math.max(0, at) || null }, { same: true });
  }
  let frame = 0;
  const scrolled = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(follow);
  };
  const aim = () => (aimed = null); // the user scrolls
  addEventListener("scroll", scrolled, { passive: true });
  addEventListener("wheel", aim, { passive: true });
  addEventListener("touchmove", aim, { passive: true });

  function to_stage(at) {
    aimed = at;
    studio.change({ stage: at || null }, { same: true });
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    figures[at]?.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
    if (now) studio.say(`${now.stages[at].name}: ${now.stages[at].formula}. ${now.stages[at].sentence}`);
  }

  /** Highlights the token of the number under the pointer in all stages. */
  function link(at) {
    for (const one of place.querySelectorAll(".same")) one.classList.remove("same");
    const key = / key (\d+)/.exec(at)?.[1];
    if (key === undefined) return;
    for (const one of stages.querySelectorAll(`text[data-at$=" key ${key}"]`)) one.classList.add("same");
    keys.querySelector(`[data-key="${key}"]`)?.classList.add("same");
  }

  function update() {
    box.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    if (key === last) {
      if (now) drawOnwards();
      return;
    }
    const before = last ? JSON.parse(last) : {};
    last = key;
    stages.setAttribute("aria-busy", "true");
    if (before.model !== wanted.model) fill(stages, waiting());
    load.stop();
    later.cancel();
    if (before.text === wanted.text || before.model !== wanted.model) load(wanted);
    else later(wanted);
  }
  update();
  return {
    update,
    leave() {
      removeEventListener("scroll", scrolled);
      removeEventListener("wheel", aim);
      removeEventListener("touchmove", aim);
      cancelAnimationFrame(frame);
      later.cancel();
      load.stop();
    },
  };
}
