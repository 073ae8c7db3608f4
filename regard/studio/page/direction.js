// The direction of a model with several: which languages it translates between, and the two menus to choose them.
// The state's `from` and `to` hold the choice; without `from` the server detects the language of the text.

import { make, select } from "./dom.js";

export const AUTO = "auto";
const TAGS = { pb: "pt-BR", zh: "zh-Hans", zt: "zh-Hant" };

/** A language code as HTML's `lang` has it; null if it is not known. */
export const lang = (code) => (code && code !== AUTO ? (TAGS[code] ?? code) : null);

/** The sources that a model has for a target, and the targets for a source; without one (or `auto`), all. */
const targetsOf = ({ targets, pairs }, source) =>
  targets.filter((one) => one !== source && (source === AUTO || !pairs || pairs[source].includes(one)));

/** `{source, target}` for requests to a model; empty if it has one direction, or does not translate. */
export function direction(studio, model = studio.model) {
  const all = model?.directions;
  if (!all) return {};
  const { from, to } = studio.state;
  const source = all.sources.includes(from) ? from : AUTO;
  const targets = targetsOf(all, source);
  return { source, target: targets.includes(to) ? to : (targets.find((one) => one === "en") ?? targets[0]) };
}

/** The source language of a model, if it has one only or one was chosen; else "". */
export function sourceOf(studio, model = studio.model) {
  const { source = model?.source ?? "" } = direction(studio, model);
  return source === AUTO ? "" : source;
}

/** Both languages of an answer, for `lang` attributes. */
export const languagesOf = (answer, model) => answer.languages ?? { source: model.source, target: model.target };

/** The menus, `{element, detected(code)}`; null for a model with one direction. */
export function pickers(studio, model) {
  const all = model?.directions;
  if (!all) return null;
  const { source, target } = direction(studio, model);
  const named = (code) => [code, all.names[code]];
  const change = (values) => studio.change({ ...values, part: null, of: null }); // they belong to the old direction
  // Choosing the target as the source swaps the two.
  const swapped = all.targets.includes(source) ? source : null;
  const pickSource = (code) => change({ from: code === AUTO ? null : code, to: code === target ? swapped : target });
  const from = select("From", [[AUTO, DETECT], ...all.sources.map(named)], source, pickSource);
  const to = select("To", targetsOf(all, source).map(named), target, (code) => change({ to: code }));
  const auto = from.querySelector("option");
  return {
    element: make("div", { class: "direction", role: "group", "aria-label": "Languages" }, from, to),
    detected: (code) => (auto.textContent = code ? `${DETECT}: ${all.names[code] ?? code}` : DETECT),
  };
}

const DETECT = "Detect";
