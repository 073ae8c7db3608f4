// A translation with parts of the model switched off, or patched from another sentence; and the logit lens.
import { direction, lang, languagesOf } from "../direction.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { signed } from "../panel.js";
import { textbox, textOf } from "../textbox.js";
import { diffWords } from "../word_diff.js";
import { shown } from "../words.js";

export { experiments } from "../experiments/what_if.js";
export const title = "What if";
export const about =
  "Switch off a head, a layer, a gate or a word, and see what the model makes of the sentence without it: an ablation. Below, the logit lens shows what it would write after each layer.";
export const more = [
  "A head that is off contributes nothing to the sum of its attention. A layer that is off adds nothing to the residual stream; a recurrent layer that is off has a state of zeros. Instead of zeros, a part can be replaced by its mean over this sentence.",
  "Activation patching puts what the model computed for another sentence in place of what it computed for this one: if the translation follows, that place held what mattered.",
];
export const code = [
  "regard/inspection/record/interventions.py:intervene",
  "regard/inspection/record/what_if.py:what_if",
  "regard/inspection/record/logit_lens.py:layer_logits",
];
export const suits = (model) => model.task === "translate";
export const lacks = "does not translate";
export const ofModel = ["off", "patch"];
export const terms = {
  ablation: "Removing a part of a model to see what it was needed for.",
  "logit lens": "The state after a layer, projected to the vocabulary as if it were the last: what the model would write there.",
  "activation patching": "Replacing values inside a model by those of another sentence, to find where information is held.",
  "residual stream": "The vector of each position that every layer reads and adds its own output to.",
};

const PAUSE = 250;
const SIDES = { encoder: "Encoder", decoder: "Decoder" };
const SUBLAYERS = { self: "self-attention", cross: "cross-attention", feed_forward: "feed-forward", recurrence: "recurrence" };

const listOf = (value) => (value ?? "").split(",").filter(Boolean);

export function show(place, studio) {
  const box = textbox(studio);
  const controls = make("div", { class: "controls" });
  const grid = make("div", { class: "parts", tabindex: "0", role: "region", "aria-label": "Parts of the model" });
  const tokens = make("div", { class: "tokens-off" });
  const patching = make("details", { class: "patching" });
  const panels = make("div", { class: "two" });
  const pictures = make("div", { class: "pictures" });
  const lens = make("div", { class: "pictures" });
  fill(place, make("div", { class: "what-if" }, box.element, controls, grid, tokens, patching, panels, pictures, lens));
  let last = "";
  let lastLens = "";
  let answer = null;

  const base = () => ({ model: studio.model.name, text: textOf(studio), ...direction(studio) });
  const off = () => listOf(studio.state.off);
  const request = () => ({
    ...base(),
    without: off(),
    mean: studio.state.mean === "yes",
    patch: listOf(studio.state.patch),
    other: studio.state.other ?? "",
  });

  const load = studio.latest(
    (signal, wanted) => studio.ask("what_if", wanted, signal),
    (found) => {
      answer = found;
      settle();
      draw();
      studio.say(found.after ? `${found.after.summary}: ${found.after.target.text}` : found.before.target.text);
    },
    (error, wanted) => {
      settle();
      fill(pictures);
      const again = error.again === false ? null : () => load(wanted);
      const back = wanted.without.length || wanted.patch.length ? make("button", { type: "button", onclick: reset }, "Switch everything on") : null;
      fill(panels, trouble(error, again), back);
    },
  );
  const loadLens = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (found) => fill(lens, found.pictures.map((one) => studio.picture({ about: found.about, ...one }))),
    (error, wanted) => fill(lens, trouble(error, () => loadLens(wanted))),
  );
  const settle = () => panels.setAttribute("aria-busy", "false");
  const reset = () => studio.change({ off: null, patch: null });

  function toggle(part) {
    const now = off();
    const next = now.includes(part) ? now.filter((one) => one !== part) : [...now, part];
    studio.change({ off: next.length ? next.join(",") : null });
  }

  /** A button that switches a part off and on. */
  function part(name, label, spoken, kind = "") {
    const pressed = off().includes(name);
    return make(
      "button",
      { type: "button", class: `part ${kind}`, "data-part": name, "aria-pressed": String(pressed), "aria-label": `${spoken} off`, title: name, onclick: () => toggle(name) },
      label,
    );
  }

  function rowOf(one) {
    const path = `${one.side}.${one.layer}`;
    const name = `${SIDES[one.side]} layer ${one.layer}`;
    const cells = [make("th", { scope: "row" }, part(path, `${one.side} ${one.layer}`, name, "whole"))];
    for (const kind of ["self", "cross"]) {
      const heads = Array.from({ length: one.heads[kind] ?? 0 }, (_, head) =>
        part(`${path}.${kind}.head.${head}`, head, `${name}, ${SUBLAYERS[kind]}, head ${head}`, "head-off"),
      );
      const all = one.sublayers.includes(kind) ? part(`${path}.${kind}`, "all", `${name}, all of its ${SUBLAYERS[kind]}`) : null;
      cells.push(make("td", {}, heads, all));
    }
    const others = one.sublayers.filter((kind) => !(kind in one.heads)).map((kind) => part(`${path}.${kind}`, SUBLAYERS[kind], `${name}, ${SUBLAYERS[kind]}`));
    const gates = one.gates.map((gate) => part(`${path}.gate.${gate}`, gate, `${name}, gate ${gate}`));
    cells.push(make("td", {}, others, gates));
    return make("tr", {}, cells);
  }

  function draw() {
    const held = document.activeElement?.dataset?.part;
    const focused = [...controls.querySelectorAll("select, button")].indexOf(document.activeElement);
    const gated = answer.parts.some((one) => one.gates.length);
    fill(
      controls,
      select("Replace by", [["", "zero"], ["yes", "the mean"]], studio.state.mean ?? "", (value) => studio.change({ mean: value || null })),
      make("button", { type: "button", disabled: !off().length && !studio.state.patch, onclick: reset }, "Switch everything on"),
    );
    if (focused >= 0) controls.querySelectorAll("select, button")[focused]?.focus();
    const head = ["Layer", "Self-attention", "Cross-attention", gated ? "Gates and others" : "Others"];
    fill(
      grid,
      make(
        "table",
        {},
        make("caption", {}, "Press a part to switch it off. The numbers are heads."),
        make("thead", {}, make("tr", {}, head.map((words) => make("th", { scope: "col" }, words)))),
        make("tbody", {}, answer.parts.map(rowOf)),
      ),
    );
    const { source } = answer.before;
    fill(
      tokens,
      make("span", { class: "faint" }, "Source tokens "),
      source.tokens.map((token, at) => part(`encoder.embedding@${at}`, make("bdi", {}, shown(token)), `Source token ${at}, ${token}`)),
    );
    drawPatching();
    drawPanels();
    if (held) place.querySelector(`[data-part="${CSS.escape(held)}"]`)?.focus();
  }

  function drawPatching() {
    const inside = patching.contains(document.activeElement) ? document.activeElement.dataset.role : null;
    const depth = answer.parts.filter((one) => one.side === "encoder").length;
    const places = [["encoder.embedding", "encoder: embeddings"], ...Array.from({ length: depth }, (_, layer) => [`encoder.${layer}.output`, `encoder: after layer ${layer}`])];
    const first = listOf(studio.state.patch)[0] ?? "";
    const [, where = "encoder.embedding", at = "", from = ""] = /^([^@]*)(?:@(\d+)=(\d+))?$/.exec(first) ?? [];
    const picked = places.some(([name]) => name === where) ? where : places[0][0];
    const other = studio.state.other ?? "";
    const change = (name, here, there) => studio.change({ patch: here === "" ? name : `${name}@${here}=${there === "" ? here : there}` });
    const numbered = (side) => side.map((token, index) => [index, `${index} ${token}`]);
    const box = make("input", { type: "text", value: other, "data-role": "other", dir: "auto", maxlength: "10000", placeholder: "Another sentence", oninput: () => later({ other: box.value || null }) });
    const choices = answer.other
      ? [
          select("Put in", [["", "nothing"], ...places], first ? picked : "", (name) => (name ? change(name, at, from) : studio.change({ patch: null }))),
          first ? select("at token", [["", "all tokens"], ...numbered(answer.before.source.tokens)], at, (here) => change(picked, here, from)) : null,
          first && at !== "" ? select("from token", numbered(answer.other.tokens), from, (there) => change(picked, at, there)) : null,
        ]
      : [];
    choices.forEach((one, index) => one && (one.querySelector("select").dataset.role = `choice ${index}`));
    if (other) patching.open = true;
    fill(
      patching,
      make("summary", {}, "Patch from another sentence"),
      make("label", { class: "choice" }, make("span", {}, "Other sentence"), box),
      make("div", { class: "controls" }, choices),
      answer.after?.other_translation ? make("p", { class: "faint" }, `Its own translation: ${answer.after.other_translation}`) : null,
    );
    if (inside) {
      const again = patching.querySelector(`[data-role="${inside}"]`);
      again?.focus();
      if (inside === "other") again.setSelectionRange(again.value.length, again.value.length);
    }
  }

  function drawPanels() {
    const { before, after } = answer;
    const langs = languagesOf(answer, studio.model);
    const text = (side, against) => {
      const marked = diffWords(against ? against.target.text : null, side.target.text);
      return make(
        "p",
        { class: "said-text", dir: side.target.direction, lang: lang(langs.target) },
        side.target.text ? marked.map(({ text: words, fresh }) => (fresh ? make("mark", {}, words) : words)) : make("span", { class: "faint" }, "(nothing)"),
      );
    };
    const panel = (heading, side, against, facts) =>
      make("section", { class: "outcome" }, make("h2", {}, heading), text(side, against), make("p", { class: "faint" }, facts));
    fill(
      panels,
      panel("As it is", before, after, `score ${signed(before.score)}, log-probability ${signed(before.log_probability)}`),
      after
        ? panel(after.summary, after, before, `score ${signed(after.score)}; the translation beside it has log-probability ${signed(after.original.log_probability)}`)
        : make("section", { class: "outcome" }, make("h2", {}, "Changed"), make("p", { class: "faint" }, "Nothing is switched off yet: press a part above.")),
    );
    const [bars, ...attention] = answer.pictures.map((one) => studio.picture({ about: answer.about, ...one }));
    fill(pictures, bars, attention.length ? make("div", { class: "two" }, attention) : null);
  }

  const later = debounce((values) => studio.change(values, { same: true }), PAUSE);
  const soon = debounce((wanted) => load(wanted), PAUSE);
  function update() {
    box.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    const before = last ? JSON.parse(last) : {};
    const ofLens = JSON.stringify({ ...base(), view: "logit-lens" });
    if (ofLens !== lastLens) {
      lastLens = ofLens;
      if (before.model !== wanted.model) fill(lens, waiting());
      loadLens(JSON.parse(ofLens));
    }
    if (key === last) return;
    last = key;
    load.stop();
    panels.setAttribute("aria-busy", "true");
    if (before.model !== wanted.model) {
      answer = null;
      for (const part of [controls, grid, tokens, patching, pictures]) fill(part);
      fill(panels, waiting()); // never show one model's parts under another's name
    }
    if (before.model !== wanted.model || before.text === wanted.text) load(wanted);
    else soon(wanted);
  }
  update();
  return {
    update,
    leave() {
      soon.cancel();
      later.cancel();
      load.stop();
      loadLens.stop();
    },
  };
}
