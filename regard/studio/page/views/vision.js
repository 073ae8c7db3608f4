// Attention maps over an image (a sample, a file or a drawing): an overlay that is clear where the model attends, for the
// class token or any patch of a classifier, for each word of a caption.
import { Trouble } from "../ask.js";
import { trouble, waiting } from "../messages.js";
import { drawingPad, encoded } from "../drawing_pad.js";
import { fill, make, select } from "../dom.js";
import { attentionOverlay, probabilityBars } from "../attention_overlay.js";

export { experiments } from "../experiments/vision.js";
export const title = "Images";
export const about =
  "Point at a patch of the image, or at a word of the caption, to see its attention over the image: the larger the attention weight, the clearer the patch. Click to pin.";
export const more =
  "A Vision Transformer reads an image as a sequence of patches; its answer is read off the class token. A captioner attends to the patches anew for each word. Attention rollout follows the attention through all layers.";
export const code = [
  "regard/stem/patches.py:Patches",
  "regard/inspection/record/classify.py:record_classification",
  "regard/inspection/trace/image.py:ImageTrace.rollout",
];
export const suits = (model) => ["patches", "grid"].includes(model.stem) && ["classify", "caption"].includes(model.task);
export const lacks = "does not read images";

const numbers = (count) => Array.from({ length: count }, (_, number) => number);
const OWN = "own"; // the name of the user's own image
const KINDS = "image/png,image/jpeg,image/gif,image/bmp,image/webp";

export function show(place, studio) {
  const samples = make("div", { class: "samples", role: "group", "aria-label": "Sample images" });
  const file = make("input", { type: "file", class: "unseen", accept: KINDS, onchange: () => take(file.files[0]) });
  const choose = make("label", { class: "file" }, file, make("span", {}, "Choose a file, or drop one here"));
  const drawing = make("details", { class: "drawn" }, make("summary", {}, "Draw an image"));
  const stage = make("div", { class: "sight" });
  const answered = make("div", { class: "answer" });
  const controls = make("div", { class: "controls" });
  const below = make("div", { class: "controls" });
  const pictures = make("div", { class: "pictures" });
  fill(
    place,
    make("div", { class: "sources" }, samples, make("div", { class: "own" }, choose, drawing)),
    make("div", { class: "look" }, stage, make("div", {}, answered, controls)),
    below,
    pictures,
  );
  place.classList.add("vision");

  let own = null; // {picture} in base64
  let canvas = null;
  let listed = ""; // the model whose samples are listed
  let names = [];
  let asked = "";
  let drawnFor = "";
  let told = null;
  let shown = null; // redraws the image

  const refuse = (error, again) => {
    told = shown = null;
    fill(stage, trouble(error, again));
    for (const one of [answered, controls, below, pictures]) fill(one);
  };
  const offer = () => {
    keep(controls, choices(studio, told));
    keep(below, views(studio, told));
  };

  place.addEventListener("dragover", (event) => event.preventDefault());
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });

  async function take(chosen) {
    if (!chosen) return;
    try {
      use(await encoded(chosen));
    } catch (error) {
      asked = drawnFor = "";
      refuse(error);
    }
    file.value = "";
  }

  function use(picture) {
    own = { picture };
    asked = drawnFor = "";
    if (studio.state.sample === OWN) update();
    else studio.change({ sample: OWN, patch: null, word: null });
  }

  const list = studio.latest(
    (signal, model) => studio.ask("inspect_image", { model }, signal),
    (answer, model) => {
      listed = model;
      names = answer.samples.map((one) => one.name);
      fill(
        samples,
        answer.samples.map(({ name, png }) => {
          const onclick = () => studio.change({ sample: name, patch: null, word: null });
          return make("button", { type: "button", "data-sample": name, title: name, onclick }, make("img", { src: png, alt: name }));
        }),
      );
      canvas?.stop();
      canvas = drawingPad(answer.size, answer.colour, use);
      fill(drawing, make("summary", {}, "Draw an image"), canvas.element);
      update();
    },
    (error, model) => refuse(error, () => list(model)),
  );

  /** The current image: the user's own, the chosen sample, or the first one. */
  function given() {
    const { sample } = studio.state;
    if (sample === OWN && own) return own;
    return { sample: names.includes(sample) ? sample : names[0] };
  }

  const load = studio.latest(
    (signal, wanted) => studio.ask("inspect_image", wanted, signal),
    (answer, wanted) => {
      told = answer;
      shown = answer.target ? captioned(studio, answer) : classified(studio, answer);
      stage.dataset.name = answer.scene.name;
      fill(stage, shown.picture, notes(answer));
      fill(answered, shown.answer);
      offer();
      draw(wanted);
      studio.say(answer.target?.text ?? `${answer.label}, ${answer.probabilities[answer.label].toFixed(2)}`);
    },
    (error, wanted) => refuse(error, () => load(wanted)),
  );

  const drawAll = studio.latest(
    (signal, wanted) => studio.ask("inspect_image", wanted, signal),
    (answer) => {
      pictures.setAttribute("aria-busy", "false");
      fill(pictures, answer.pictures.map((one) => studio.picture({ about: answer.about, ...one }, { onpick: open })));
    },
    (error, wanted) => fill(pictures, trouble(error, () => drawAll(wanted))),
  );

  /** The pictures below the image, with layer and head where they apply. */
  function draw(wanted) {
    const { seeing } = studio.state;
    const view = told.views.includes(seeing) ? seeing : told.views[0];
    const asking = { model: wanted.model, sample: wanted.sample, picture: wanted.picture, view };
    if (told.target) Object.assign(asking, { layer: wanted.layer, head: wanted.head });
    if (view === "numbers") Object.assign(asking, followed(studio, told));
    else if (!told.target && view === "patches") Object.assign(asking, { only: 0, position: position(studio, told) });
    else if (!told.target && view === "heads") Object.assign(asking, { layer: told.layer, head: head(studio, told) });
    const key = JSON.stringify(asking);
    if (key === drawnFor) return;
    drawnFor = key;
    pictures.setAttribute("aria-busy", "true");
    if (!pictures.childElementCount) fill(pictures, waiting());
    drawAll(asking);
  }

  /** A click on the small map of a head shows it large. */
  function open(at) {
    const [what, kind, layer, number] = at.split(" ");
    if (!["pick", "of"].includes(what) || kind !== "source") return;
    studio.change({ layer, head: number, mix: null });
    stage.scrollIntoView({ block: "nearest" });
  }

  function update() {
    const { model, state } = studio;
    if (listed !== model.name) {
      if (asked !== `samples of ${model.name}`) {
        asked = `samples of ${model.name}`;
        refuse(new Trouble(""));
        fill(stage, waiting());
        list(model.name);
      }
      return;
    }
    const wanted = { model: model.name, ...given() };
    for (const one of samples.children) one.setAttribute("aria-pressed", String(one.dataset.sample === wanted.sample));
    const chosen = model.task === "caption" ? ["layer", "head"] : ["layer"];
    const counts = { layer: told?.layers, head: told?.heads };
    for (const name of chosen) {
      const number = Number(state[name]);
      if (state[name] !== undefined && number >= 0 && (told?.model !== model.name || number < counts[name])) wanted[name] = number;
    }
    const key = JSON.stringify(wanted);
    if (key !== asked) {
      asked = key;
      load(wanted);
    } else if (told) {
      shown.draw();
      offer();
      draw(wanted);
    }
  }
  update();
  return {
    update,
    leave() {
      list.stop();
      load.stop();
      drawAll.stop();
      canvas?.stop();
    },
  };
}

// Choices.

function head(studio, told) {
  const number = Number(studio.state.head);
  return number >= 0 && number < told.heads ? number : 0;
}

/** Which weights are drawn over the image: a head's, their mean, or the rollout. */
function mix(studio) {
  const { mix, head } = studio.state;
  return mix === "rollout" ? "rollout" : head === undefined || mix === "mean" ? "mean" : "head";
}

/** The index of the chosen query, or undefined. */
function position(studio, told) {
  const number = Number(studio.state.patch);
  const chosen = studio.state.patch !== undefined && number >= 0 && number < told.scene.places.length + told.scene.before;
  return chosen ? number : undefined;
}

/** The calculation to show: of the chosen place or word, in the current head. */
export function followed(studio, told) {
  if (!told.target) return { layer: told.layer, head: head(studio, told), position: position(studio, told) ?? 0 };
  return { position: Math.max(0, told.target.word_of.indexOf(Number(studio.state.word ?? 0))) };
}

/** Replaces the controls and restores the focus. */
export function keep(place, controls) {
  const held = [...place.querySelectorAll("select")].indexOf(document.activeElement);
  fill(place, controls);
  if (held >= 0) place.querySelectorAll("select")[held]?.focus();
}

export function views(studio, told) {
  if (told.views.length < 2) return null;
  const options = told.views.map((name) => [name, NAMES[name] ?? name]);
  return select("Show", options, studio.state.seeing ?? told.views[0], (seeing) => studio.change({ seeing }));
}

export function choices(studio, told) {
  if (!told.layers) return null;
  if (told.target) {
    return ["layer", "head"].map((name) => {
      const count = told[`${name}s`];
      const options = [["", "mean of all"], ...numbers(count)];
      const pick = (value) => studio.change({ [name]: value === "" ? null : value });
      return count > 1 ? select(name === "layer" ? "Layer" : "Head", options, studio.state[name] ?? "", pick) : null;
    });
  }
  const kind = mix(studio);
  const heads = [["mean", "mean of all"], ["rollout", "rollout up to this layer"], ...numbers(told.heads)];
  return [
    select("Layer", numbers(told.layers), told.layer, (layer) => studio.change({ layer })),
    select("Head", heads, kind === "head" ? head(studio, told) : kind, (value) =>
      studio.change(["mean", "rollout"].includes(value) ? { mix: value, head: null } : { mix: null, head: value }),
    ),
  ];
}

const NAMES = {
  patches: "attention maps of all heads",
  heads: "heads as heatmaps and lines",
  numbers: "the arithmetic of one head",
  beam: "beam search",
  ponder: "ponder time",
};

// A classified image.

function classified(studio, told) {
  const { before, places } = told.scene;
  const firsts = ["class", "distillation"].slice(0, before);
  const tokens = [...firsts, ...places];
  const said = make("output", { class: "value" });
  let pointed = null;
  const rows = () => {
    const kind = mix(studio);
    return kind === "rollout" ? told.rollout : kind === "mean" ? told.mean : told.weights[head(studio, told)];
  };
  const pinned = () => position(studio, told);
  const press = (token) => studio.change({ patch: pinned() === token ? null : token });

  const overlay = attentionOverlay(told.scene, {
    label: "The image, patch by patch. Arrow keys move between patches; Enter pins one.",
    onpoint(place) {
      pointed = place === null ? null : place + before;
      draw();
    },
    onpress: (place) => press(place + before),
  });
  const beside = firsts.map((_, token) => make("button", { type: "button", class: "class-token", onclick: () => press(token) }));
  const about = make("p", { class: "who" });

  function draw() {
    if (!told.layers) {
      overlay.show(null);
      return;
    }
    const pin = pinned();
    const query = pin ?? pointed ?? (before ? 0 : null);
    const all = rows();
    const row = query === null ? all[0].map((_, key) => all.reduce((sum, one) => sum + one[key], 0) / all.length) : all[query];
    const who = query === null ? "all patches" : tokens[query];
    overlay.show(row.slice(before), who);
    overlay.mark(query === null ? -1 : query - before);
    const most = row.slice(before).reduce((best, weight, at, list) => (weight > list[best] ? at : best), 0) + before;
    about.textContent = `${firsts.includes(who) ? `The ${who} token` : who} attends most to ${tokens[most]} (${row[most].toPrecision(3)})`;
    beside.forEach((button, token) => {
      button.textContent = `${firsts[token]} ${row[token].toPrecision(3)}`;
      button.dataset.weight = row[token];
      button.setAttribute("aria-pressed", String(pin === token));
    });
    said.textContent = pin !== undefined && pointed !== null ? `${who} → ${tokens[pointed]}: ${row[pointed]}` : "";
  }
  draw();
  return {
    draw,
    picture: [overlay.element, make("div", { class: "under" }, beside, about), said],
    answer: [make("p", { class: "label" }, told.label), probabilityBars(Object.entries(told.probabilities))],
  };
}

// A captioned image.

/** The words of a text about an image or a recording, and the attention of each over it; `what` is that, in words. */
export function captioned(studio, told, what = "image, patch by patch", text = "caption") {
  const said = make("output", { class: "value" });
  const words = told.target.words;
  let pointed = null;
  const pinned = () => {
    const number = Number(studio.state.word);
    return studio.state.word !== undefined && number >= 0 && number < words.length ? number : null;
  };
  const buttons = words.map((word, at) =>
    make(
      "button",
      {
        type: "button",
        class: "word",
        "data-word": at,
        onpointerenter: () => point(at),
        onpointerleave: () => point(null),
        onfocus: () => point(at),
        onblur: () => point(null),
        onclick: () => studio.change({ word: pinned() === at ? null : at }),
      },
      word,
    ),
  );
  const overlay = attentionOverlay(told.scene, {
    label: `The ${what}, and the attention weight of each.`,
    onpoint(place) {
      const word = pinned() ?? pointed;
      if (place === null || !told.words) said.textContent = "";
      else if (word !== null) said.textContent = `${words[word]} → ${told.scene.places[place]}: ${told.words[word][place]}`;
      weigh(place === null || word !== null || !told.words ? null : told.words.map((row) => row[place]));
    },
    onpress() {},
  });

  /** The attention of each word to a place, as the thickness of its line. */
  function weigh(column) {
    const greatest = column ? Math.max(...column) : 0;
    buttons.forEach((button, at) => button.style.setProperty("--weight", greatest > 0 ? column[at] / greatest : 0));
  }
  function point(at) {
    pointed = at;
    draw();
  }
  function draw() {
    const pin = pinned();
    const word = pointed ?? pin;
    overlay.show(word === null || !told.words ? null : told.words[word], word === null ? "" : words[word]);
    buttons.forEach((button, at) => {
      button.setAttribute("aria-pressed", String(pin === at));
      button.classList.toggle("looks", word === at);
    });
    said.textContent = word === null ? "" : `${words[word]}: probability ${told.sure ? told.sure[word].toPrecision(3) : "unknown"}`;
  }
  draw();
  const hint = told.words
    ? "Point at a word to see where the model attended when it generated it."
    : "This model has no attention, so there is nothing to show.";
  return {
    draw,
    picture: [overlay.element, said],
    answer: [
      make("p", { class: "caption", dir: told.target.direction, role: "group", "aria-label": text[0].toUpperCase() + text.slice(1) }, buttons),
      make("p", { class: "faint" }, hint),
      told.finished ? null : make("p", { class: "faint" }, `The ${text} was cut off at the length limit.`),
    ],
  };
}

export const notes = (told) => told.scene.notes.map((note) => make("p", { class: "faint" }, note));
