// The terms of each pair of languages: a small table, kept in this browser and sent with every request.
import { fill, make } from "./dom.js";
import { recall, remember } from "./memory.js";

const MOST = 1000; // as many as a request may have

/** `changed()` is called when a pair became complete, or went. */
export function glossaryPanel(changed) {
  let pair = "";
  let rows = [];
  const body = make("tbody");
  const caption = make("caption");
  const count = make("span", { class: "faint" });
  const complete = (list) => list.filter(([term, translation]) => term.trim() && translation.trim()).slice(0, MOST);

  function keep() {
    remember(`glossary ${pair}`, rows.filter((row) => row.some((cell) => cell.trim())));
    tell();
    changed();
  }
  const tell = () => (count.textContent = complete(rows).length ? ` (${complete(rows).length})` : "");

  function cell(row, column, label) {
    const input = make("input", { type: "text", value: row[column], "aria-label": label, dir: "auto", maxlength: "500" });
    input.addEventListener("change", () => {
      row[column] = input.value;
      keep();
    });
    input.addEventListener("input", () => row === rows.at(-1) && add());
    return make("td", {}, input);
  }

  function line(row) {
    const remove = make("button", { type: "button", class: "plain", title: "Remove this term", "aria-label": "Remove this term" }, "×");
    const shown = make("tr", {}, cell(row, 0, "Term"), cell(row, 1, "Its translation"), make("td", {}, remove));
    remove.addEventListener("click", () => {
      rows = rows.filter((one) => one !== row);
      shown.remove();
      if (!rows.length) add();
      body.querySelector("input")?.focus();
      keep();
    });
    return shown;
  }

  /** An empty line to type in. */
  function add() {
    if (rows.length >= MOST) return;
    const row = ["", ""];
    rows.push(row);
    body.append(line(row));
  }

  return {
    element: make(
      "details",
      { id: "glossary" },
      make("summary", {}, "Glossary", count),
      make("p", { class: "faint" }, "How terms must be translated. The table stays in this browser."),
      make("table", {}, caption, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Term"), make("th", { scope: "col" }, "Translation"), make("td"))), body),
    ),
    /** The terms for a pair of languages, of which either may be "". */
    terms: (source, target) => (source ? complete(recall(`glossary ${source}-${target}`, [])).map(([a, b]) => [a.trim(), b.trim()]) : []),
    /** Shows the table of a pair. */
    show(source, target, words) {
      const next = `${source}-${target}`;
      if (next === pair) return;
      pair = next;
      rows = source ? recall(`glossary ${pair}`, []) : [];
      caption.textContent = source ? words : "Choose or type a text in a language first.";
      fill(body, rows.map(line));
      if (source) add();
      tell();
    },
  };
}
