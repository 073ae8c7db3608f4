// The menus of the two languages, and the button that swaps them.
import { fill, make } from "./dom.js";
import { recall, remember } from "./memory.js";

export const AUTO = "auto";
const DETECT = "Detect language";

/** `languages` is the answer of /languages. `changed()` is called when the user chose; `swapped()` when they were swapped. */
export function languageMenus(languages, first, { changed, swapped }) {
  const known = new Map(languages.map((one) => [one.code, one]));
  const targets = new Set(languages.flatMap((one) => one.targets.filter((code) => code !== one.code)));
  const sources = languages.filter((one) => one.targets.some((code) => code !== one.code));
  const chosen = recall("languages", {});
  let source = known.has(chosen.source) ? chosen.source : AUTO;
  let target = targets.has(chosen.target) ? chosen.target : first;
  let detected = "";
  const name = (code) => known.get(code)?.name ?? code;

  const from = make("select", { id: "from", "aria-label": "From", onchange: () => pick(from.value, target) });
  const to = make("select", { id: "to", "aria-label": "To", onchange: () => pick(source, to.value) });
  const swap = make("button", { type: "button", id: "swap", onclick: turn, title: "Swap the languages" }, "⇄");
  swap.setAttribute("aria-label", "Swap the languages");

  const possible = (code) => [...targets].filter((one) => code === AUTO || (one !== code && known.get(code).targets.includes(one)));

  function pick(start, end) {
    if (start === end) end = source === AUTO ? detected : source; // choosing the target as the source swaps the two
    source = start;
    const fitting = possible(source);
    target = fitting.includes(end) ? end : (fitting.find((one) => one === first) ?? fitting[0] ?? "");
    detected = "";
    remember("languages", { source, target });
    draw();
    changed();
  }

  function turn() {
    const start = source === AUTO ? detected : source;
    if (!start || !known.get(target)?.targets.includes(start)) return;
    [source, target, detected] = [target, start, ""];
    remember("languages", { source, target });
    draw();
    swapped();
  }

  function draw() {
    const option = (code) => make("option", { value: code }, name(code));
    fill(from, make("option", { value: AUTO }, detected ? `${name(detected)} (detected)` : DETECT), sources.map(({ code }) => option(code)));
    fill(to, possible(source).sort((a, b) => name(a).localeCompare(name(b))).map(option));
    from.value = source;
    to.value = target;
    const start = source === AUTO ? detected : source;
    swap.disabled = !start || start === target || !known.get(target)?.targets.includes(start);
  }

  draw();
  return {
    element: make("div", { class: "menus", role: "group", "aria-label": "Languages" }, from, swap, to),
    chosen: () => ({ source, target }),
    /** The language that the server found, "" for none. */
    detected(code) {
      detected = source === AUTO ? code : "";
      draw();
    },
    /** The source language, if it was chosen or detected; else "". */
    known: () => (source === AUTO ? detected : source),
    name,
  };
}
