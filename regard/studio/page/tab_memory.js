// What each tab showed last: its model, what belongs to this model, and the text for each kind of task.

/** Values of the state that mean nothing to another model; views add theirs (`ofModel`). */
export const ofModel = new Set(["way", "step", "of", "of_head", "part", "picture", "position", "output", "layer", "head", "attention", "unit", "near"]);

const tabs = new Map(); // view -> the state when it was shown last
const texts = new Map(); // kind of text -> what was typed
let preferred = null; // the model that was chosen last, on whatever tab

/** Texts of one kind can be read by all models of that kind: translators from one language, language models, ... */
const kindOf = (model) => (model.task === "translate" ? `translate ${model.directions ? "any" : model.source}` : model.task);

/** Keeps what is shown now. */
export function remember(view, model, state) {
  tabs.set(view, { ...state, model: model?.name });
  if (model) texts.set(kindOf(model), state.text);
}

/** The user chose this model. */
export function prefer(name) {
  if (name) preferred = name;
}

/** The model of a tab: its own of last time, or else the one that was chosen last, if the tab can show it. */
export function modelOf(view, fitting) {
  const named = (name) => fitting.find((one) => one.name === name);
  return named(tabs.get(view)?.model) ?? named(preferred) ?? fitting[0];
}

/** The values to change in the state when a model follows another one (either may be missing), on a tab. */
export function handOver(view, before, after) {
  if (!after || before?.name === after.name) return {};
  const kept = tabs.get(view) ?? {};
  const values = {};
  if (before && kindOf(before) !== kindOf(after)) values.text = texts.get(kindOf(after)) ?? null;
  const text = "text" in values ? values.text : texts.get(kindOf(after));
  const again = kept.model === after.name && (kept.text ?? null) === (text ?? null);
  for (const name of ofModel) values[name] = again ? (kept[name] ?? null) : null;
  return values;
}
