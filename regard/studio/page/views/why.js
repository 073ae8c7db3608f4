// Which inputs made an output likely: source words, the words written before, or patches of an image.
import { direction } from "../direction.js";
import { readsText, textbox, textOf } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { percent, shown } from "../words.js";

export const title = "Why";
export const about =
  "Attribution: which source words, and which words written before, made each output likely. Click a row to explain that output alone, and to ask why it is not another candidate.";
export const more = [
  "Input x gradient is fast but sees only small changes. Integrated gradients add up the changes on the whole way from no words to these words; their completeness error says how exact the sum is. Occlusion and value zeroing really take something away and run the model again. Attention rollout only says what was read.",
  "The methods often disagree: `regard lab attribution` measures which of them names the words that matter.",
];
export const code = [
  "regard/inspection/record/attribution/integrated_gradients.py:integrated_gradients",
  "regard/inspection/record/attribution/occlusion.py:occlusion",
  "regard/inspection/record/attribution/value_zeroing.py:value_zeroing",
];
const readsImages = (model) => ["patches", "grid"].includes(model.stem) && ["classify", "caption"].includes(model.task);
export const suits = (model) => readsText(model) || readsImages(model);
export const first = (model) => model.task === "translate";
export const lacks = "reads neither text nor images";
export const ofModel = ["method", "output", "contrast", "sample"];
export const terms = {
  attribution: "How much each input contributed to an output: one number for each pair.",
  "input x gradient": "Each input vector times the gradient of the output: what the output would lose if the model were linear.",
  "integrated gradients": "Gradients added up on the straight way from no words to these words; a row sums to what the words changed.",
  "completeness error": "How far a row of integrated gradients is from the change it should sum to; below 1 % is good.",
  occlusion: "A word or patch is blanked out, and the loss of log-probability is measured.",
  "value zeroing": "Attention keeps its weights but reads zeros in place of one word's values; the loss of log-probability is measured.",
  "share of the source": "The part of all contributions, without their signs, that comes from the source and not from the words written before.",
};
const METHODS = {
  input_x_gradient: "Input x gradient",
  integrated_gradients: "Integrated gradients",
  occlusion: "Occlusion",
  value_zeroing: "Value zeroing",
  rollout: "Attention rollout",
};

const bare = (token) => shown(token).replace(/^·/, "");
const quoted = (token) => `“${bare(token)}”`;
const strongest = (row) => row.reduce((best, value, at) => (Math.abs(value) > Math.abs(row[best]) ? at : best), 0);

/** The request for a text; an experiment asks the same with other options. */
const ofText = (studio) => ({ model: studio.model.name, text: textOf(studio), ...direction(studio) });

export const experiments = [
  {
    question: "Which word owes least to the source, and most to what was written before?",
    action: "Take each word away and see",
    suits: (model) => model.task === "translate",
    async run(studio, signal) {
      const found = await studio.ask("attribute", { ...ofText(studio), method: "occlusion" }, signal);
      studio.change({ method: "occlusion", output: null, contrast: null });
      const shares = found.source_shares;
      const at = shares.indexOf(Math.min(...shares));
      const mean = shares.reduce((sum, one) => sum + one, 0) / shares.length;
      return `${quoted(found.rows[at])}: only ${percent(shares[at])} of what occlusion finds for it comes from the source; the mean of all words is ${percent(mean)}.`;
    },
  },
  {
    question: "Why this token and not the next best one?",
    action: "Ask it of the least certain token",
    suits: (model) => model.task === "translate",
    async run(studio, signal) {
      // Integrated gradients begin with the output that the model was least certain of.
      const first = await studio.ask("attribute", { ...ofText(studio), method: "integrated_gradients" }, signal);
      const output = first.position;
      const contrast = first.candidates[0];
      const found = await studio.ask("attribute", { ...ofText(studio), method: "occlusion", position: output, contrast }, signal);
      studio.change({ method: "occlusion", output, contrast });
      const at = strongest(found.values[0]);
      const way = found.values[0][at] > 0 ? "speaks for" : "speaks against";
      return `${quoted(found.rows[0])} and not ${quoted(contrast)}: ${quoted(found.columns[at])} ${way} it most, by ${Math.abs(found.values[0][at]).toFixed(2)} in log-probability.`;
    },
  },
  {
    question: "Do a gradient and a real removal name the same input?",
    action: "Compare both methods",
    suits: readsText,
    async run(studio, signal) {
      const ask = (method) => studio.ask("attribute", { ...ofText(studio), method }, signal);
      const [slope, removal] = [await ask("input_x_gradient"), await ask("occlusion")];
      const same = slope.values.filter((row, at) => strongest(row) === strongest(removal.values[at])).length;
      return `In ${same} of ${slope.rows.length} ${slope.rows.length === 1 ? "row" : "rows"} input x gradient and occlusion find the same input strongest. A small change is not the same question as a removal.`;
    },
  },
];

const PAUSE = 250;
const SAMPLE = "own";

export function show(place, studio) {
  const box = textbox(studio, "Text");
  const samples = make("div", { class: "samples", role: "group", "aria-label": "Sample images" });
  const controls = make("div", { class: "controls" });
  const said = make("p", { class: "why-said" });
  const pictures = make("div", { class: "pictures", "aria-busy": "false" });
  fill(place, box.element, samples, controls, said, pictures);
  let last = "";
  let answer = null;
  let listed = ""; // the model whose samples are listed
  let names = [];

  const image = () => readsImages(studio.model);
  const request = () => {
    const { method, output, contrast, units, sample } = studio.state;
    const wanted = image()
      ? { model: studio.model.name, sample: names.includes(sample) && sample !== SAMPLE ? sample : names[0] }
      : ofText(studio);
    if (method in METHODS) wanted.method = method;
    if (output !== undefined) wanted.position = Math.max(0, Math.round(Number(output)) || 0);
    if (contrast) wanted.contrast = contrast;
    if (units === "tokens") wanted.tokens = true;
    return wanted;
  };

  const list = studio.latest(
    (signal, model) => studio.ask("inspect_image", { model }, signal),
    (found, model) => {
      listed = model;
      names = found.samples.map((one) => one.name);
      const choose = (sample) => studio.change({ sample, output: null, contrast: null });
      fill(
        samples,
        found.samples.map(({ name, png }) =>
          make("button", { type: "button", "data-sample": name, title: name, onclick: () => choose(name) }, make("img", { src: png, alt: name })),
        ),
      );
      update();
    },
    (error, model) => fill(pictures, trouble(error, () => list(model))),
  );

  const load = studio.latest(
    (signal, wanted) => studio.ask("attribute", wanted, signal),
    (found) => {
      answer = found;
      pictures.setAttribute("aria-busy", "false");
      drawControls();
      const words = inWords(found);
      fill(said, words);
      fill(pictures, found.pictures.map((one) => studio.picture({ about: found.about, ...one }, { onpick: open })), make("p", { class: "faint" }, found.about));
      studio.say(words);
    },
    (error, wanted) => {
      pictures.setAttribute("aria-busy", "false");
      fill(said);
      fill(pictures, trouble(error, () => start(wanted)));
      if (wanted.contrast) pictures.append(make("button", { type: "button", onclick: () => studio.change({ contrast: null }) }, "Without the other candidate"));
    },
  );
  const start = (wanted) => {
    pictures.setAttribute("aria-busy", "true");
    load(wanted);
  };

  /** A click on a row, or on a cell of it, explains that output alone. */
  function open(at) {
    const [what, row] = at.split(" ");
    const output = what === "row" || what === "cell" ? answer.outputs[Number(row)]?.[0] : undefined;
    if (output !== undefined && answer.rows.length > 1) studio.change({ output, contrast: null });
  }

  function drawControls() {
    const held = [...controls.querySelectorAll("select")].indexOf(document.activeElement);
    const alone = answer.rows.length === 1 && answer.position !== null;
    const methods = answer.methods.map((name) => [name, METHODS[name] ?? name]);
    const outputs = [["", "all"], ...answer.names.map((name, at) => [at, `${at + 1}: ${bare(name) || name}`])];
    const others = [["", "nothing in particular"], ...[...new Set([...answer.candidates, answer.contrast].filter(Boolean))].map((name) => [name, bare(name) || name])];
    fill(
      controls,
      select("Method", methods, answer.method, (method) => studio.change({ method })),
      answer.names.length > 1
        ? select("Output", outputs, alone ? answer.position : "", (output) => studio.change({ output: output === "" ? null : output, contrast: null }))
        : null,
      answer.contrasts && answer.candidates.length
        ? select("And not", others, answer.contrast, (contrast) => studio.change({ contrast: contrast || null, output: answer.position ?? studio.state.output ?? null }))
        : null,
      image() ? null : select("Units", [["words", "words"], ["tokens", "tokens"]], answer.tokens ? "tokens" : "words", (units) => studio.change({ units: units === "words" ? null : units })),
    );
    if (held >= 0) controls.querySelectorAll("select")[held]?.focus();
    for (const button of samples.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.sample === request().sample);
  }

  const later = debounce(start, PAUSE);
  const update = () => {
    box.element.hidden = image();
    samples.hidden = !image();
    box.update();
    if (image() && listed !== studio.model.name) {
      load.stop();
      last = "";
      fill(controls);
      fill(said);
      fill(pictures, waiting());
      list(studio.model.name);
      return;
    }
    const wanted = request();
    const key = JSON.stringify(wanted);
    const before = last ? JSON.parse(last) : {};
    if (key === last) return;
    last = key;
    load.stop();
    later.cancel();
    pictures.setAttribute("aria-busy", "true");
    if (before.model !== wanted.model) {
      answer = null;
      fill(controls);
      fill(said);
      fill(pictures, waiting()); // never show one model's attribution under another's name
    }
    if (before.model !== wanted.model || before.text === wanted.text) start(wanted);
    else later(wanted);
  };
  update();
  return {
    update,
    leave() {
      later.cancel();
      load.stop();
      list.stop();
    },
  };
}

/** The strongest inputs of one output, or the share of the source in all. */
function inWords(found) {
  if (found.rows.length > 1) {
    if (!found.source_shares) return "";
    const mean = found.source_shares.reduce((sum, one) => sum + one, 0) / found.source_shares.length;
    return `By this method ${percent(mean)} of all contributions to these words come from the source on average, the rest from the words written before.`;
  }
  const [row] = found.values;
  const ranked = [...row.keys()].sort((one, other) => Math.abs(row[other]) - Math.abs(row[one])).slice(0, 3);
  const parts = ranked.map((at) => `${quoted(found.columns[at])} (${row[at] > 0 ? "+" : "−"}${Math.abs(row[at]).toFixed(2)})`);
  const other = found.contrast ? ` and not ${quoted(found.contrast)}` : "";
  return `For ${quoted(found.rows[0])}${other}, ${parts.join(", ")} counted most.`;
}
