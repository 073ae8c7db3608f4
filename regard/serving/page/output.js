// The translation: its words can be chosen (click, or arrow keys and Enter) to see other ways to go on.
import { fill, make } from "./dom.js";

/**
 * The pieces of a translation: `[{text, source}]`, where `source` is the sentence that was translated; text between
 * sentences has none. `doubtful` are the beginnings and ends of words. A sentence whose translation is not found again, word for word, is text between them.
 */
export function piecesOf(translation, sentences, doubtful = []) {
  const pieces = [];
  let from = 0;
  for (const { source, translation: words } of sentences) {
    const at = words.trim() ? translation.indexOf(words.trim(), from) : -1;
    if (at < 0) continue;
    if (at > from) pieces.push({ text: translation.slice(from, at) });
    const own = doubtful.filter(([start, end]) => start >= at && end <= at + words.trim().length);
    pieces.push({ text: words.trim(), source, doubtful: own.map(([start, end]) => [start - at, end - at]) });
    from = at + words.trim().length;
  }
  if (from < translation.length) pieces.push({ text: translation.slice(from) });
  return pieces;
}

/** The words below a confidence, `[[start, end]]` in a string of JavaScript; the server counts characters. */
export function doubtfulWords(translation, words, threshold) {
  const starts = [0];
  for (const character of translation) starts.push(starts.at(-1) + character.length);
  return words.filter((one) => one.confidence < threshold).map(({ start, end }) => [starts[start], starts[end]]);
}

/** The place of the translation. `opened(word, piece, prefix)` is called for a word of a sentence. */
export function output(opened) {
  const element = make("div", { id: "translation", dir: "auto", role: "group", "aria-label": "Translation" });
  const words = () => [...element.querySelectorAll(".word")];

  function wordsOf(piece) {
    const parts = piece.text.split(/(\s+)/);
    let at = 0;
    return parts.map((part) => {
      const start = at;
      at += part.length;
      if (!part.trim()) return part;
      const doubtful = (piece.doubtful ?? []).some(([begin, end]) => begin < start + part.length && end > start);
      const open = () => opened(word, piece, piece.text.slice(0, start).trim());
      const word = make(
        "span",
        { class: doubtful ? "word doubtful" : "word", role: "button", tabindex: "-1", "aria-haspopup": "true", onclick: open, title: doubtful ? "The model is unsure about this word." : null },
        part,
      );
      word.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      });
      return word;
    });
  }

  // One stop of the Tab key; arrow keys go from word to word.
  element.addEventListener("keydown", (event) => {
    const all = words();
    const at = all.indexOf(document.activeElement);
    const rtl = getComputedStyle(element).direction === "rtl";
    const step = { ArrowRight: rtl ? -1 : 1, ArrowLeft: rtl ? 1 : -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
    all[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  return {
    element,
    show(pieces, language) {
      if (language) element.lang = language;
      fill(element, pieces.map((piece) => (piece.source === undefined ? piece.text : wordsOf(piece))));
      const first = words()[0];
      if (first) first.tabIndex = 0;
    },
  };
}
