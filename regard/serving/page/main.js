// The page to translate: what is typed on the left is translated on the right.
import { closeAlternatives, openAlternatives } from "./alternatives.js";
import { latest, Trouble } from "./ask.js";
import { debounce, fill, make } from "./dom.js";
import { filesPanel } from "./files.js";
import { glossaryPanel } from "./glossary.js";
import { keyForm } from "./key_form.js";
import { AUTO, languageMenus } from "./languages.js";
import { trouble, waiting } from "./messages.js";
import { recall, remember } from "./memory.js";
import { doubtfulWords, output, piecesOf } from "./output.js";
import { get, hasKey, KeyRefused, post, useKey } from "./server.js";
import { suggestionEditor } from "./suggest.js";
import { themeButton } from "./theme.js";

const PAUSE = 350; // milliseconds without a keystroke
const DOUBT = 0.5; // words that are more likely wrong than right
const content = document.getElementById("content");
const say = (words) => (document.getElementById("said").textContent = words);

function page(settings, languages) {
  let pieces = [];
  let used = { source: "", target: "" }; // the languages of what is shown
  const menus = languageMenus(languages, settings.language.target.code, { changed: again, swapped: swapTexts });
  const glossary = glossaryPanel(again);
  const source = make("textarea", { id: "source", rows: "8", dir: "auto", spellcheck: "true", "aria-label": "Text to translate", placeholder: "Type or paste a text", autofocus: true });
  const counter = make("span");
  const clear = make("button", { type: "button", class: "plain", onclick: () => (put(""), source.focus()) }, "Clear");
  const shown = output(alternativesOf);
  const wrong = make("div", { id: "trouble" });
  const note = make("span", { role: "status" });
  const marks = make("input", { type: "checkbox", id: "marks", onchange: switchMarks });
  marks.checked = recall("marks", false);
  const warnings = make("ul", { class: "warnings", "aria-label": "Warnings" });
  const copy = make("button", { type: "button", class: "plain", onclick: copyText, disabled: true }, "Copy");
  const edit = make("button", { type: "button", class: "plain", onclick: startEditing, disabled: true }, "Suggest a correction");
  const result = make("div", { class: "pane result" }, shown.element, warnings, make("div", { class: "below" }, make("label", { title: "Words that the model is unsure of get a dotted line" }, marks, " Mark doubtful words"), note, settings.suggestions ? edit : null, copy));

  const limit = settings.charLimit > 0 ? settings.charLimit : Infinity;
  const text = () => pieces.map((piece) => piece.text).join("");

  function fail(error) {
    shown.element.removeAttribute("aria-busy");
    if (error instanceof KeyRefused) {
      useKey("");
      return keyForm(content, begin, error.message);
    }
    fill(wrong, trouble(error, again));
  }

  async function work(signal, given, { source: from, target: to }) {
    const ask = (start, terms) => post("translate", { q: given, source: start, target: to, sentences: true, ...(marks.checked ? { doubt: true } : {}), ...(terms.length ? { glossary: terms } : {}) }, signal);
    if (from !== AUTO) return ask(from, glossary.terms(from, to));
    const found = await ask(AUTO, []);
    const start = found.detectedLanguage?.language ?? "";
    const terms = glossary.terms(start, to);
    return terms.length ? { ...(await ask(start, terms)), detectedLanguage: found.detectedLanguage } : found;
  }

  const translate = latest(
    work,
    (found, given, { source: from, target: to }) => {
      shown.element.removeAttribute("aria-busy");
      fill(wrong);
      const start = found.detectedLanguage?.language ?? from;
      menus.detected(found.detectedLanguage ? start : "");
      used = { source: start, target: to };
      glossary.show(start, to, `${menus.name(start)} → ${menus.name(to)}`);
      source.lang = start;
      const doubtful = doubtfulWords(found.translatedText, found.doubt?.words ?? [], DOUBT);
      show(piecesOf(found.translatedText, found.sentences ?? [], doubtful));
      fill(warnings, (found.doubt?.warnings ?? []).map((one) => make("li", {}, one.message)));
      say(found.translatedText.slice(0, 500));
    },
    fail,
  );

  function show(next) {
    stopEditing();
    pieces = next;
    shown.show(pieces, used.target);
    copy.disabled = edit.disabled = !text().trim();
    note.textContent = "";
    fill(warnings);
  }

  function now() {
    closeAlternatives();
    const given = source.value;
    const chosen = menus.chosen();
    glossary.show(menus.known(), chosen.target, `${menus.name(menus.known())} → ${menus.name(chosen.target)}`);
    const many = [...given].length;
    counter.textContent = limit < Infinity ? `${many.toLocaleString("en")} / ${limit.toLocaleString("en")}` : many ? many.toLocaleString("en") : "";
    counter.className = many > limit ? "over-limit" : "";
    clear.hidden = !given;
    translate.stop();
    if (!given.trim()) {
      fill(wrong);
      shown.element.removeAttribute("aria-busy");
      menus.detected("");
      return show([]);
    }
    if (many > limit) return fail(new Trouble(`This server takes ${limit.toLocaleString("en")} characters at once; the text has ${many.toLocaleString("en")}. Send it as a document, or in parts.`));
    shown.element.setAttribute("aria-busy", "true");
    translate(given, chosen);
  }
  const soon = debounce(now, PAUSE);
  source.addEventListener("input", () => {
    translate.stop(); // what is being translated is out of date
    soon();
  });

  function again() {
    soon.cancel();
    now();
  }

  function put(words) {
    source.value = words;
    again();
  }

  function switchMarks() {
    remember("marks", marks.checked);
    again();
  }

  function swapTexts() {
    put(text() || source.value);
  }

  function alternativesOf(word, piece, prefix) {
    const model = { source: used.source, target: used.target };
    const take = (chosen) => {
      const words = () => [...shown.element.querySelectorAll(".word")];
      const at = words().indexOf(word);
      show(pieces.map((one) => (one === piece ? { ...one, text: chosen, doubtful: [] } : one)));
      say(chosen);
      words().at(Math.min(at, words().length - 1))?.focus({ preventScroll: true });
    };
    openAlternatives(word, { model, text: piece.source, prefix, now: piece.text }, take, fail);
  }

  async function copyText() {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      getSelection().selectAllChildren(shown.element); // no clipboard without https
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    note.textContent = "Copied.";
  }

  let editor = null;
  function startEditing() {
    closeAlternatives();
    const done = (words) => {
      stopEditing();
      note.textContent = words;
      edit.focus();
    };
    editor = suggestionEditor(pieces, used, done, fail);
    shown.element.replaceWith(editor.element);
    edit.hidden = copy.hidden = true;
    editor.area.focus();
  }

  function stopEditing() {
    editor?.element.replaceWith(shown.element);
    editor = null;
    edit.hidden = copy.hidden = false;
  }

  fill(
    content,
    menus.element,
    make(
      "div",
      { class: "panes" },
      make("div", { class: "pane" }, source, make("div", { class: "below" }, counter, clear)),
      result,
    ),
    wrong,
    make("div", { class: "further" }, settings.filesTranslation ? filesPanel(settings.supportedFilesFormat, menus.chosen, (error) => error instanceof KeyRefused && fail(error)) : null, glossary.element),
  );
  now();
}

async function begin() {
  fill(content, waiting());
  try {
    const settings = await get("frontend/settings");
    if (settings.keyRequired && !hasKey()) keyForm(content, begin);
    else page(settings, await get("languages"));
  } catch (error) {
    fill(content, trouble(error, begin));
  }
  document.documentElement.dataset.ready = "yes";
}

/** Keeps the page's files for when the server is away (service_worker.js). */
async function keepFiles() {
  if (!("serviceWorker" in navigator)) return; // no https
  try {
    await navigator.serviceWorker.register("page/service_worker.js", { scope: "./" });
    const { active } = await navigator.serviceWorker.ready;
    const loaded = performance.getEntriesByType("resource").map((one) => one.name);
    active.postMessage({ files: [location.href.split(/[?#]/)[0], ...loaded] });
  } catch {
    // the page works without
  }
}

themeButton(document.getElementById("theme"));
begin();
keepFiles();
