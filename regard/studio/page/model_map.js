// The map of a model: its blocks as lists of links and buttons, so that keyboard and screen reader reach all that the
// pointer does. What is known of the recipe is drawn first (`draw`), what the model computed is filled in (`flow`).
import { debounce, fill, make } from "./dom.js";
import { waiting } from "./messages.js";
import { percent, shown } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const BUSY = 10; // milliseconds of drawing before the page may do something else
const CELL = 4; // pixels of a thumbnail per number

const TYPING = 300; // milliseconds without a key before links have the new text

/** The views that show what happens in a block, the best first; those that are not here, or cannot show it, are skipped. */
const VIEWS = {
  embedding: ["gradients", "why"],
  positions: ["positions", "vision", "speech"],
  attention: ["heads", "vision", "speech"],
  feed_forward: ["what_if"],
  cell: ["gates", "vision", "speech"],
  ssru: ["gates"],
  halting: ["ponder"],
  memory: ["translate", "why", "vision", "speech"],
  output: ["steps", "language", "fill", "vision", "speech", "why"],
  softmax: ["steps", "language", "fill", "vision", "speech", "why"],
  search: ["beam", "vision", "speech"],
  patches: ["vision"],
  convolution: ["vision", "speech"],
  pooling: ["vision"],
  tokens: ["translate", "language", "fill", "vision"],
};

/** The source code of blocks that no view shows. */
const CODE = {
  norm: "regard/layers/residual.py#Residual",
  feed_forward: "regard/layers/feed_forward.py#FeedForward",
  bridge: "regard/layers/bridge.py#Bridge",
  readout: "regard/decoder/attentional.py#AttentionalDecoder",
  relative: "regard/layers/relative_position/_base.py#RelativePosition",
  positions: "regard/layers/add_position.py#AddPosition",
  embedding: "regard/layers/embedding.py#TokenEmbedding",
};

/** `onlink(view, values)` gives the state of a link. */
export function drawnMap(studio, { onlink }) {
  const wires = document.createElementNS(SVG, "svg");
  wires.setAttribute("class", "wires");
  wires.setAttribute("aria-hidden", "true");
  const columns = make("div", { class: "columns" });
  const element = make("section", { class: "map", "aria-label": "The model", "aria-busy": "true" }, columns, wires);
  let map = null; // the blocks
  let told = null; // what the model computed
  let last = "";

  const resized = new ResizeObserver(() => wire());
  resized.observe(columns);
  const later = debounce(redraw, TYPING);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = new MutationObserver(() => paintAll());
  themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  dark.addEventListener("change", paintAll);

  // Links.

  const viewOf = (kind) => (VIEWS[kind] ?? []).find((name) => studio.opens(name));
  function leading(kind, values, properties, ...inside) {
    const view = viewOf(kind);
    if (!view && CODE[kind]) return make("a", { ...properties, class: `${properties.class} source-code`, href: `code/${CODE[kind]}` }, inside);
    if (!view) return make("span", properties, inside);
    const to = { block: null, ...onlink(view, values) };
    return make("a", { ...properties, ...follows(to) }, inside);
  }
  const follows = (to) => ({
    href: studio.link(to),
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      studio.change(to);
    },
  });

  // The parts of a column.

  const count = (side) => told?.counts[side] ?? { source: "S", target: "T" }[side];
  const within = (path) => studio.state.block === path || studio.state.block?.startsWith(`${path}.`);
  const attentions = (path) => told?.attention.filter((one) => one.path === path || one.path.startsWith(`${path}.`)) ?? [];

  function tokens(side) {
    const words = told?.tokens[side];
    const chips = words?.length
      ? words.map((word) => make("li", { dir: "auto" }, shown(word)))
      : [make("li", { class: "faint" }, pictured() ? "an image" : "…")];
    return make("ul", { class: "chips", "aria-label": side === "source" ? "Tokens that it reads" : "Tokens that it has written" }, chips);
  }

  function outputs() {
    const steps = viewOf("softmax") === "steps";
    const chips = (told?.outputs ?? []).map(({ token, probability }, step) => {
      const bar = make("span", { class: "sure", "aria-hidden": "true" });
      bar.style.setProperty("--sure", probability);
      const inside = [make("b", { dir: "auto" }, shown(token)), bar, make("small", {}, percent(probability))];
      return make("li", {}, leading("softmax", steps ? { step: step || null, way: null } : {}, {}, inside));
    });
    return make("ul", { class: "chips out", "aria-label": "What it says" }, chips.length ? chips : make("li", { class: "faint" }, "…"));
  }

  const pictured = () => ["patches", "grid"].includes(studio.model.stem);

  function flowing(many, width, side) {
    const raw = side === "source" && pictured() ? "pixels" : `${many} tokens`;
    const size = width ? `${many} × ${width.toLocaleString("en")}` : raw;
    return make("p", { class: "flow" }, make("span", { class: "unseen" }, "passes on "), size);
  }

  function details(block) {
    const ponder = told?.ponder.find((one) => one.path === block.path);
    if (!ponder) return block.detail;
    const mean = ponder.times.reduce((sum, one) => sum + one, 0) / ponder.times.length;
    return `${mean.toFixed(1)} steps on average`;
  }

  /** One block without an inside: a link to the view that belongs to it. */
  function leaf(block) {
    const values = {};
    if (block.attention) Object.assign(values, { attention: block.attention, layer: block.layer, head: null });
    if (["cell", "ssru"].includes(block.kind)) {
      values.picture = Math.max(0, told?.gates.findIndex((one) => one.path === block.path) ?? 0) || null;
    }
    if (block.kind === "feed_forward") values.off = `${block.side === "source" ? "encoder" : "decoder"}.${block.layer}.feed_forward`;
    if (block.kind === "positions" && viewOf("positions") === "vision") values.seeing = "positions";
    const many = block.parameters ? `${block.parameters.toLocaleString("en")} parameters` : null;
    const link = leading(
      block.kind,
      values,
      { class: `block ${block.kind}`, title: many, "data-path": block.path, "data-cross": block.attention === "cross" || block.kind === "bridge" ? "yes" : null },
      make("b", {}, block.title),
      make("small", {}, details(block)),
    );
    const inside = [link];
    if (block.attention) inside.push(heads(block));
    if (block.kind === "cell") inside.push(states(block));
    return inside;
  }

  /** The heads of an attention as small heatmaps; the one that is open is shown with its numbers. */
  function heads(block) {
    const all = attentions(block.path).filter((one) => one.path === block.path);
    if (!all.length) return null;
    const open = studio.state.block === block.path;
    const rows = all.map((one) =>
      make(
        "span",
        { class: "heads", role: "group", "aria-label": all.length > 1 ? `Heads at step ${one.layer}` : `Heads of layer ${one.layer}` },
        one.weights.map((weights, head) => {
          const here = open && Number(studio.state.layer ?? 0) === one.layer && Number(studio.state.head ?? 0) === head;
          const pick = () =>
            studio.change(here ? { block: layerOf(block.path), head: null } : { block: block.path, attention: one.kind, layer: one.layer, head });
          const properties = { type: "button", "aria-label": `Head ${head}`, title: `Head ${head}`, "data-path": `${block.path} ${one.layer} ${head}`, "aria-expanded": String(here), onclick: pick };
          return make("button", properties, thumbnail(weights));
        }),
      ),
    );
    const chosen = open ? all.find((one) => one.layer === Number(studio.state.layer ?? 0)) ?? all[0] : null;
    return [rows, chosen ? oneHead(chosen, Number(studio.state.head ?? 0)) : null];
  }

  const layerOf = (path) => (map.layers.find((one) => path.startsWith(`${one}.`)) ?? null);

  /** One head: its weights as a table, each of which leads to how it was computed. */
  function oneHead(one, head) {
    if (one.pooled) return make("div", { class: "one-head" }, waiting()); // its numbers are on their way
    const weights = one.weights[head] ?? one.weights[0];
    const to = { attention: one.kind, layer: one.layer, head };
    const name = `${one.kind === "cross" ? "Cross-attention" : "Self-attention"}, ${one.weights.length > 1 ? `head ${head}` : "one head"}`;
    if (one.places) return make("div", { class: "one-head" }, make("p", {}, name), large(weights), more(to));
    const numbers = studio.opens("numbers");
    const row = (values, query) => {
      const at = onlink("numbers", { ...to, position: query });
      const label = numbers ? make("a", { ...follows({ block: null, ...at }), dir: "auto" }, shown(one.queries[query])) : shown(one.queries[query]);
      const cells = values.map((value, key) => {
        const cell = make("td", { title: `${one.queries[query]} → ${one.keys[key]}: ${value}` }, value.toFixed(2).replace(/^0/, ""));
        cell.style.setProperty("--weight", value);
        return cell;
      });
      const line = make("tr", {}, make("th", { scope: "row" }, label), cells);
      if (numbers) {
        line.classList.add("leads");
        line.addEventListener("click", (event) => event.target.closest("a") ?? studio.change({ block: null, ...at }));
      }
      return line;
    };
    const top = make("tr", {}, make("td", {}), one.keys.map((key) => make("th", { scope: "col", dir: "auto" }, shown(key))));
    const table = make("table", {}, make("caption", {}, `${name}: each row sums to 1. `, numbers ? "A row shows how it was computed." : ""), top, weights.map(row));
    return make("div", { class: "one-head", tabindex: "0", role: "group", "aria-label": name }, table, more(to));
  }

  const more = (to) => make("p", {}, leading("attention", to, {}, "All heads"));

  function states(block) {
    const found = told?.gates.find((one) => one.path === block.path);
    if (!found) return null;
    const label = make("small", { class: "faint" }, `${found.states.length} units of its state, along the tokens`);
    return make("span", { class: "heads" }, large(found.states), label);
  }

  /** A layer: closed with its heads as thumbnails, open with its blocks. */
  function layer(block, number) {
    const open = within(block.path) || (studio.state.block === undefined && number === 0 && block.side === "source" && !wide(block));
    const toggle = () => studio.change({ block: open ? "none" : block.path, head: null });
    const inside = block.blocks.filter((one) => one.kind !== "norm").map((one) => one.title);
    const cross = !open && block.blocks.some((one) => one.attention === "cross") ? "yes" : null;
    const button = make(
      "button",
      { type: "button", class: "block layer", "aria-expanded": String(open), "data-path": block.path, "data-cross": cross, onclick: toggle },
      make("b", {}, block.title),
      open ? null : make("small", {}, inside.join(", ")),
    );
    if (!open) return [button, previews(block)];
    return make("div", { class: "opened" }, button, list(block.blocks, block));
  }

  const wide = (block) => block.blocks.every((one) => one.kind === "cell");

  /** The heads of a closed layer. */
  function previews(block) {
    const all = attentions(block.path);
    if (!all.length) return null;
    return make("span", { class: "heads still", "aria-hidden": "true" }, all.flatMap((one) => one.weights.map((weights) => thumbnail(weights))));
  }

  /** Blocks in their order, with what flows into each. */
  function list(blocks, within = null) {
    let number = -1;
    const cells = within && wide(within);
    return make(
      "ol",
      { class: cells ? "blocks beside" : "blocks" },
      blocks.map((block) => {
        if (block.kind === "layer") number += 1;
        const entering = cells || block.kind === "bridge" ? null : flowing(block.rows, block.entering, block.side);
        const drawn = block.kind === "layer" ? layer(block, number) : leaf(block);
        return make("li", { class: block.kind === "bridge" ? "aside" : null }, entering, drawn);
      }),
    );
  }

  /** Writes into each block what enters it: how many tokens, and how many numbers for each. */
  function measure(blocks, side, state = { width: 0, rows: count(side) }) {
    for (const block of blocks) {
      block.entering = state.width;
      block.rows = state.rows;
      if (block.blocks.length) measure(block.blocks, side, { ...state });
      if (block.kind === "pooling") state.rows = 1;
      if (block.kind !== "bridge") state.width = block.kind === "search" ? 0 : block.width || state.width;
    }
    return state;
  }

  function column(side) {
    const blocks = map[side];
    if (!blocks.length) return null;
    const both = map.source.length && map.target.length;
    const end = measure(blocks, side);
    const last = side === "source" && both;
    const heading = side === "source" || !both ? "What it reads" : "What it has written so far";
    const memory = last
      ? leading("memory", {}, { class: "block memory", "data-memory": "yes" }, make("b", {}, "Memory"), make("small", {}, "for the decoder to attend to"))
      : null;
    return make(
      "section",
      { "aria-label": both ? (last ? "Encoder" : "Decoder") : "The model" },
      make("h2", {}, heading),
      tokens(side),
      list(blocks),
      flowing(end.rows, end.width),
      last ? memory : [make("h2", {}, studio.model.task === "generate" ? "What may come next" : "What it says"), outputs()],
    );
  }

  // Drawing.

  function redraw() {
    if (!map) return;
    const held = document.activeElement?.closest?.(".map") ? document.activeElement.dataset.path ?? "" : "";
    fill(columns, column("source"), column("target"));
    if (held) columns.querySelector(`[data-path="${CSS.escape(held)}"]`)?.focus();
    paintAll();
    wire();
  }

  /** Lines from the memory to the blocks that read it, where the columns are side by side. */
  function wire() {
    wires.replaceChildren();
    const from = columns.querySelector("[data-memory]");
    const ends = [...columns.querySelectorAll("[data-cross]")];
    if (!from || !ends.length) return;
    const home = element.getBoundingClientRect();
    const begin = from.getBoundingClientRect();
    const places = ends.map((end) => end.getBoundingClientRect());
    if (places[0].left < begin.right) return;
    wires.setAttribute("width", home.width);
    wires.setAttribute("height", home.height);
    const [x, y] = [begin.right - home.left, begin.top + begin.height / 2 - home.top];
    const column = columns.lastElementChild.getBoundingClientRect().left - home.left;
    const middle = (x + column) / 2;
    for (const to of places) {
      const [endX, endY] = [to.left - home.left, to.top + to.height / 2 - home.top];
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M${x} ${y}H${middle}V${endY}H${endX - 2}m-6 -4l6 4l-6 4`);
      wires.append(path);
    }
  }

  /** Some heads at a time: a large model has hundreds, and the page must not freeze. */
  async function paintAll() {
    const colours = getComputedStyle(document.documentElement);
    const [ink, rust] = ["--ink", "--rust"].map((name) => colours.getPropertyValue(name));
    let began = performance.now();
    for (const canvas of columns.querySelectorAll("canvas")) {
      paint(canvas, ink, rust);
      if (performance.now() - began < BUSY) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (!canvas.isConnected) return; // drawn anew meanwhile
      began = performance.now();
    }
  }

  return {
    element,
    draw(blocks) {
      map = blocks;
      map.layers = [...map.source, ...map.target].filter((one) => one.kind === "layer").map((one) => one.path);
      last = "";
      redraw();
      last = key();
    },
    flow(answer) {
      told = answer;
      later.cancel();
      redraw();
    },
    update() {
      const now = key();
      if (now === last) return;
      const typed = last && onlyText(last, now);
      last = now;
      later.cancel();
      if (typed) later(); // its links; what the model computes for the text is drawn when it is there
      else redraw();
    },
    forget() {
      told = null;
      map = null;
    },
    leave() {
      later.cancel();
      resized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", paintAll);
    },
  };

  function onlyText(before, after) {
    return JSON.stringify(JSON.parse(before).slice(0, -1)) === JSON.stringify(JSON.parse(after).slice(0, -1));
  }

  function key() {
    const { block, layer, head, text } = studio.state;
    return JSON.stringify([block, layer, head, text]);
  }
}

const values = new WeakMap(); // canvas -> its numbers

function thumbnail(rows, size = "small") {
  const canvas = make("canvas", { class: size, width: rows[0].length * CELL, height: rows.length * CELL });
  values.set(canvas, rows);
  return canvas;
}

const large = (rows) => thumbnail(rows, "large");

/** A number is a cell: the darker the larger, negative ones in the second colour. */
function paint(canvas, ink, rust) {
  const rows = values.get(canvas);
  const most = Math.max(1e-9, ...rows.map((row) => Math.max(...row.map(Math.abs))));
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  rows.forEach((row, y) =>
    row.forEach((value, x) => {
      context.globalAlpha = Math.abs(value) / most;
      context.fillStyle = value < 0 ? rust : ink;
      context.fillRect(x * CELL, y * CELL, CELL, CELL);
    }),
  );
}
