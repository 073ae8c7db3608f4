// All attention heads as small heatmaps, and one head as lines between tokens.
import { direction } from "../direction.js";
import { lacking, readsText, textOf, textbox } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select } from "../dom.js";
import { KINDS } from "../attention_kinds.js";

export { experiments } from "../experiments/heads.js";
export const title = "Heads";
export const about =
  "Every attention head as a small heatmap. Click one to see it as lines: the attending token is on the right, the tokens it attends to are on the left.";
export const more =
  "In a heatmap, rows are queries (the attending tokens) and columns are keys. The stronger the colour of a cell or line, the larger the attention weight.";
export const code = ["regard/layers/attention/multi_head.py:MultiHead", "regard/inspection/draw/attention_lines.py:draw_lines"];
export const suits = (model) => model.attention && readsText(model);
export const lacks = lacking("has no attention");

export function show(place, studio) {
  const box = textbox(studio);
  const controls = make("div", { class: "controls" });
  const one = make("div", { class: "pictures" });
  const grid = make("div", { class: "pictures" });
  fill(place, box.element, controls, make("div", { class: "beside" }, one, grid));
  let last = "";
  let lastOne = "";
  let kinds = {};

  /** The chosen head, limited to those that the model has. */
  const chosen = () => {
    const { attention = "cross", layer = 0, head = 0 } = studio.state;
    const kind = kinds[attention] ? attention : (Object.keys(KINDS).find((name) => kinds[name]) ?? "cross");
    const within = (number, count) => Math.max(0, Math.min(Number(number) || 0, (count ?? 1) - 1));
    return { attention: kind, layer: within(layer, kinds[kind]?.layers), head: within(head, kinds[kind]?.heads) };
  };
  const sentence = () => ({ model: studio.model.name, text: textOf(studio), view: "heads", only: 0, ...direction(studio) });
  const numbers = (count) => Array.from({ length: count }, (_, number) => number);

  const loadOne = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (answer, wanted) => {
      const [drawn] = answer.pictures;
      const heading = `${KINDS[wanted.attention]}, layer ${wanted.layer}, head ${wanted.head}`;
      fill(one, studio.picture({ ...drawn, heading, about: answer.about }, { onmark: isolate }));
      studio.say(heading);
    },
    (error, wanted) => fill(one, trouble(error, () => loadOne(wanted))),
  );
  const drawOne = () => {
    const now = chosen();
    const wanted = { ...sentence(), ...now };
    if (lastOne === (lastOne = JSON.stringify(wanted))) return;
    const held = [...controls.querySelectorAll("select")].indexOf(document.activeElement);
    const pick = (values) => studio.change(values);
    const offered = Object.keys(KINDS).filter((kind) => kinds[kind]);
    fill(
      controls,
      select("Attention", offered.map((kind) => [kind, KINDS[kind]]), now.attention, (attention) => pick({ attention })),
      select("Layer", numbers(kinds[now.attention]?.layers ?? 1), now.layer, (layer) => pick({ layer })),
      select("Head", numbers(kinds[now.attention]?.heads ?? 1), now.head, (head) => pick({ head })),
    );
    if (held >= 0) controls.querySelectorAll("select")[held].focus();
    for (const small of grid.querySelectorAll(".picked")) small.classList.remove("picked");
    grid.querySelector(`[data-at="pick ${now.attention} ${now.layer} ${now.head}"]`)?.classList.add("picked");
    loadOne(wanted);
  };
  const loadAll = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (answer) => {
      kinds = answer.kinds;
      fill(grid, studio.picture({ ...answer.pictures[0], about: answer.about }, { onpick: open }));
      lastOne = "";
      drawOne();
    },
    (error, wanted) => {
      fill(one, trouble(error, () => loadAll(wanted)));
      fill(grid);
    },
  );
  const later = debounce(loadAll, 250);

  function open(at) {
    const [what, attention, layer, head] = at.split(" ");
    if (what !== "pick") return;
    studio.change({ attention, layer, head });
    one.scrollIntoView({ block: "nearest" });
  }

  const update = () => {
    box.update();
    const wanted = sentence();
    const key = JSON.stringify(wanted);
    if (key === last) {
      if (grid.childElementCount) drawOne();
      return;
    }
    const other = !last || JSON.parse(last).model !== wanted.model;
    last = key;
    loadOne.stop();
    loadAll.stop();
    later.cancel();
    if (other) {
      fill(one, waiting());
      fill(grid);
      loadAll(wanted);
    } else later(wanted);
  };
  update();
  return {
    update,
    leave() {
      later.cancel();
      loadOne.stop();
      loadAll.stop();
    },
  };
}

/** Shows only the lines of the token under the pointer. */
function isolate(at, mark) {
  const drawing = mark?.ownerSVGElement ?? document.querySelector(".regard-lines.looking");
  if (!drawing) return;
  const [side, number] = at.split(" ");
  const looking = side === "key" || side === "query";
  drawing.classList.toggle("looking", looking);
  if (!looking) return;
  for (const line of drawing.querySelectorAll("line[data-at]")) {
    const [query, key] = line.dataset.at.split(" ");
    line.classList.toggle("looked", (side === "query" ? query : key) === number);
  }
}
