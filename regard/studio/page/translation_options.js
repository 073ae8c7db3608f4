// The options of the Translate view: words or tokens, layer and head, models to compare with, search settings.

import { sourceOf } from "./direction.js";
import { fill, make, select } from "./dom.js";

/** The models to compare with. */
export function chosen(studio) {
  const names = (studio.state.with ?? "").split(",");
  return able(studio).filter((one) => names.includes(one.name));
}

/** Models for the same task and source language. If that is detected, only models that detect it, too. */
function able(studio) {
  const { model, models } = studio;
  const source = sourceOf(studio);
  const reads = (one) => (one.directions ? !source || one.directions.sources.includes(source) : one.source === source);
  return models.filter((one) => one !== model && one.task === model.task && reads(one));
}

/** `update()` shows the state, `answered(answer or null)` the options of the first model. */
export function controls(studio) {
  const units = make("fieldset", { class: "segments" }, make("legend", {}, "Show"));
  for (const unit of ["words", "tokens"]) {
    const pick = () => studio.change({ units: unit === "words" ? null : unit });
    const button = make("input", { type: "radio", name: "units", value: unit, onchange: pick });
    units.append(make("label", {}, button, make("span", {}, unit)));
  }
  const where = make("fieldset", { class: "where", hidden: true });
  const companions = make("fieldset", { class: "companions" });
  const settings = make("span");
  const sliders = make("div", { class: "sliders" });
  const search = make("details", { class: "search" }, make("summary", {}, "Search: ", settings), sliders);

  /** A menu of all layers or heads; null where there is only one. */
  function menu(name, count, now) {
    if (count < 2) return null;
    const each = Array.from({ length: count }, (_, at) => [at, `${name} ${at}`]);
    const pick = (value) => studio.change({ [name]: value === "" ? null : value });
    return select(name, [["", `mean of all ${name}s`], ...each], now ?? "", pick);
  }

  function slider(name, label, value, range) {
    const output = make("output", {}, String(value));
    const input = make("input", {
      type: "range",
      ...range,
      value,
      "aria-label": label,
      oninput: () => (output.textContent = input.value),
      onchange: () => studio.change({ [name]: input.value, of: null }),
    });
    return make("label", {}, make("span", { "data-term": label.toLowerCase() }, label), input, output);
  }

  /** A checkbox for each model to compare with. */
  function boxes() {
    const change = () => {
      const names = [...companions.querySelectorAll(":checked")].map((box) => box.value);
      studio.change({ with: names.join() || null });
    };
    const box = (value) => make("input", { type: "checkbox", value, onchange: change });
    return able(studio).map(({ name, title }) => make("label", { title }, box(name), make("span", {}, name)));
  }

  return {
    element: make("div", { class: "choices" }, units, where, companions, search),
    update() {
      for (const box of units.querySelectorAll("input")) box.checked = box.value === (studio.state.units ?? "words");
      const names = able(studio).map((one) => one.name);
      companions.hidden = !names.length;
      if (companions.dataset.names !== names.join()) fill(companions, make("legend", {}, "Compare with"), boxes());
      companions.dataset.names = names.join();
      const now = chosen(studio).map((one) => one.name);
      for (const box of companions.querySelectorAll("input")) box.checked = now.includes(box.value);
    },
    answered(answer) {
      const { layers = 0, heads = 0, layer, head } = answer?.attention ?? {};
      where.hidden = layers * heads < 2;
      if (!answer) return;
      const held = document.activeElement?.closest(".where label, .sliders label")?.textContent;
      const all = [layers, heads, layer, head].join();
      if (where.dataset.all !== all)
        fill(where, make("legend", { "data-term": "attention" }, "Attention"), menu("layer", layers, layer), menu("head", heads, head));
      where.dataset.all = all;
      const { beam, length_penalty: penalty } = answer;
      settings.textContent = `beam width ${beam}, length penalty ${penalty}`;
      const reset = () => studio.change({ beam: null, penalty: null, of: null });
      const changed = studio.state.beam !== undefined || studio.state.penalty !== undefined;
      fill(
        sliders,
        slider("beam", "Beam width", beam, { min: 1, max: 16, step: 1 }),
        slider("penalty", "Length penalty", penalty, { min: 0, max: 2, step: 0.1 }),
        changed && make("button", { type: "button", class: "plain", onclick: reset }, "Reset to defaults"),
      );
      const same = [...where.children, ...sliders.children].find((one) => held && one.textContent === held);
      same?.querySelector("select, input")?.focus();
    },
  };
}
