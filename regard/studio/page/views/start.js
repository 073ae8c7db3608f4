// The start page: what Regard is, and the model as a picture. The blocks come from its recipe (map/NAME) and are drawn at
// once; tokens, weights and probabilities (the question `flow`) are filled in when the model has computed them.
// The state's `block` is the block that is open: a layer, or an attention, whose `layer` and `head` are shown.
import { direction, lang, languagesOf } from "../direction.js";
import { debounce, fill, make } from "../dom.js";
import { drawnMap } from "../model_map.js";
import { saveSvg } from "../save.js";
import { trouble, waiting } from "../messages.js";
import { readsText, textOf, textbox } from "../textbox.js";
import { explained } from "../tooltip.js";
import { percent, shown } from "../words.js";

export const title = "Start";
export const about =
  "Regard trains, runs and inspects sequence models, from recurrent networks to the Transformer: this is one of them at work, block by block.";
export const more =
  "The text enters at the top; every block shows what it does, and every arrow how much flows along it: tokens × numbers for each. Open a layer to see its blocks, a head to see its weights, and a weight to see how it was computed. A block leads to the view that shows what happens in it.";
export const code = ["regard/assemble.py:build_model", "regard/inspection/trace/model_map.py:model_map"];
export const ofModel = ["block", "sample"];
export const suits = () => true;
export const first = (model) => model.task === "translate" && model.decoder === "transformer";
export const terms = {
  "layer norm": "Brings the numbers of each token to mean 0 and standard deviation 1, then scales them by learnt factors.",
};

const PAUSE = 300; // milliseconds without a key before the server is asked
const pictured = (model) => ["patches", "grid"].includes(model.stem) && ["classify", "caption"].includes(model.task);

export function show(place, studio) {
  const text = textbox(studio);
  text.element.querySelector("textarea").rows = 1;
  const samples = make("div", { class: "samples", role: "group", "aria-label": "Sample images" });
  const said = make("p", { class: "says", "aria-live": "polite" });
  const map = drawnMap(studio, { onlink: leave });
  const save = make("button", { type: "button", class: "plain", onclick: keep }, "Save as SVG");
  const tour = make("button", { type: "button", onclick: () => studio.change({ tour: 1 }) }, "Take the tour");
  const head = make("div", { class: "beginning" }, said, tour, save);
  fill(place, text.element, samples, head, map.element);
  let drawn = ""; // the model whose map is shown
  let last = ""; // what was asked last
  let images = []; // the sample images of the model
  let large = null; // a model of which an answer has the numbers of one block alone, and these blocks

  const loadMap = studio.latest(
    (signal, name) => studio.get(`map/${encodeURIComponent(name)}`, signal),
    (blocks) => {
      map.draw(blocks);
      performance.mark("drawn"); // the first drawing
    },
    (error, name) => fill(map.element, trouble(error, () => loadMap(name))),
  );
  const loadSamples = studio.latest(
    (signal, model) => studio.ask("inspect_image", { model }, signal),
    (answer) => {
      images = answer.samples;
      update();
    },
    failed,
  );
  const loadFlow = studio.latest(
    (signal, wanted) => studio.ask("flow", wanted, signal),
    (flow) => {
      map.element.setAttribute("aria-busy", "false");
      const paths = flow.attention.map((one) => one.path);
      if (flow.attention.some((one) => one.pooled)) large = { model: studio.model.name, paths };
      map.flow(flow);
      drawSaid(flow);
      update(); // the block that is open may be told next
    },
    failed,
  );
  const later = debounce(loadFlow, PAUSE);

  function failed(error) {
    map.element.setAttribute("aria-busy", "false");
    if (studio.loading) {
      last = ""; // asked again when the models are loaded
      fill(said, waiting("The models are loading …"));
    } else fill(said, trouble(error, () => ((last = ""), update())));
  }

  function request() {
    const { model } = studio;
    const block = large?.model === model.name && large.paths.includes(studio.state.block) ? { block: studio.state.block } : {};
    if (readsText(model)) return { model: model.name, text: textOf(studio), ...direction(studio), ...block };
    const sample = images.find((one) => one.name === studio.state.sample) ?? images[0];
    return pictured(model) && sample ? { model: model.name, text: "", sample: sample.name } : null;
  }

  /** Source and output in one line. */
  function drawSaid(flow) {
    const [source, target] = flow.texts;
    const languages = languagesOf(flow, studio.model);
    const label = { translate: "It says", caption: "It sees", generate: "It goes on with", classify: "It says" };
    const best = flow.outputs[0];
    const words = studio.model.task === "generate" || !target?.text ? `“${shown(best?.token ?? "")}”` : target.text;
    const one = ["classify", "generate"].includes(studio.model.task) && best; // one answer, not a row of them
    const sure = one ? ` ${percent(best.probability)}` : "";
    const answer = make("b", { dir: "auto", lang: lang(languages.target) }, words);
    fill(said, make("span", { class: "faint" }, `${label[studio.model.task] ?? "It says"} `), answer, sure);
    studio.say(`${source.text} → ${words}`);
  }

  function drawSamples(chosen) {
    samples.hidden = !images.length;
    const held = [...samples.children].indexOf(document.activeElement);
    fill(
      samples,
      images.map(({ name, png }) => {
        const pick = () => studio.change({ sample: name });
        const picture = make("img", { src: png, alt: name, width: 56, height: 56 });
        return make("button", { type: "button", "aria-pressed": String(name === chosen), onclick: pick }, picture);
      }),
    );
    if (held >= 0) samples.children[held]?.focus();
  }

  /** Opens the view of a block, with this text and model. */
  function leave(view, values) {
    const { model } = studio;
    const own = readsText(model) ? { text: textOf(studio) } : { sample: request()?.sample ?? null };
    return { ...own, view, model: model.name, picture: null, ...values };
  }

  async function keep() {
    const { model } = studio;
    const { block, ...asked } = request();
    const wanted = { ...asked, view: "map", only: 0 };
    try {
      const { pictures } = await studio.ask(wanted.sample ? "inspect_image" : "draw_view", wanted);
      saveSvg(pictures[0].svg, `regard-map-${model.name}`);
    } catch (error) {
      fill(said, trouble(error));
    }
  }

  function update(first = false) {
    const { model } = studio;
    const reads = readsText(model);
    text.element.hidden = !reads;
    if (reads) text.update();
    if (model.name !== drawn) {
      drawn = model.name;
      images = [];
      last = "";
      fill(said);
      map.forget();
      loadMap(model.name);
      loadFlow.stop();
      if (!reads && pictured(model)) loadSamples(model.name);
    }
    const wanted = request();
    save.hidden = !wanted;
    drawSamples(wanted?.sample);
    map.update();
    const key = JSON.stringify(wanted);
    if (!reads && !pictured(model)) map.element.setAttribute("aria-busy", "false"); // the blocks are all there is to show
    if (!wanted || key === last) return;
    const other = !last || JSON.parse(last).model !== wanted.model || wanted.sample;
    last = key;
    loadFlow.stop();
    later.cancel();
    map.element.setAttribute("aria-busy", "true");
    if (first || other) loadFlow(wanted);
    else later(wanted);
  }
  update(true);
  return {
    update: () => update(),
    leave() {
      later.cancel();
      for (const one of [loadMap, loadSamples, loadFlow]) one.stop();
      map.leave();
    },
  };
}

export const experiments = [
  {
    question: "Where are most of the numbers that the model has learnt?",
    action: "Count them",
    async run(studio, signal) {
      const all = await studio.get(`map/${encodeURIComponent(studio.model.name)}`, signal);
      const sums = new Map();
      const count = (block) => {
        if (block.blocks.length) block.blocks.forEach(count);
        else if (block.parameters) sums.set(block.title, (sums.get(block.title) ?? 0) + block.parameters);
      };
      [...all.source, ...all.target].forEach(count);
      const parts = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 4);
      const shares = parts.map(([name, many]) => `${name} ${percent(many / all.parameters)}`);
      return explained(`Of ${all.parameters.toLocaleString("en")} parameters: ${shares.join(", ")}.`);
    },
  },
];
