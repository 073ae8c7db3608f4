// A list of answers with their probabilities: horizontal bars that are buttons.
import { make } from "./dom.js";

/** A probability as a percentage, however small. */
export function share(value) {
  const percent = 100 * value;
  if (value <= 0) return "0 %";
  return percent >= 0.01 ? `${percent.toFixed(percent >= 10 ? 1 : 2)} %` : "<0.01 %";
}

/**
 * A list of `{label, value, length, before, said, cut, onpick}`: `length` and `before`, from 0 to 1, are the lengths of
 * the bar and of the paler one behind it; `said` is the text beside it, and `value`, the exact number, is in its dataset.
 * `onhover(index or null)` is called with the bar that is under the pointer or has the focus. Tab reaches one bar, the
 * arrow keys move between them.
 */
export function bars(rows, { name = "", onhover } = {}) {
  const buttons = rows.map((row, place) => {
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("i"), make("b"));
    bar.style.setProperty("--length", row.length ?? row.value);
    bar.style.setProperty("--before", row.before ?? 0);
    const button = make(
      "button",
      { type: "button", class: row.cut ? "cut" : null, tabindex: place ? -1 : 0, "data-place": place, "data-value": row.value },
      make("bdi", {}, row.label),
      bar,
      make("span", { class: "said" }, row.said ?? share(row.value)),
    );
    button.addEventListener("click", () => row.onpick?.());
    return button;
  });
  const list = make("div", { class: "bars", role: "group", "aria-label": name }, buttons);
  const placeOf = (event) => event.target.closest?.("button")?.dataset.place ?? null;
  for (const event of ["pointerover", "focusin"]) {
    list.addEventListener(event, (one) => placeOf(one) !== null && onhover?.(Number(placeOf(one))));
  }
  for (const event of ["pointerleave", "focusout"]) list.addEventListener(event, () => onhover?.(null));
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(event.target.closest("button"));
    const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (now < 0 || !buttons[next]) return;
    event.preventDefault();
    buttons[now].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  });
  return list;
}
