// The source above the translation, with lines for attention weights; pointing at a word shows its weights.
// Rows of the weights are words or tokens of the translation, columns those of the source.

import { make } from "./dom.js";
import { hueOf, ink, mark, sentence } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const FAINTEST = 0.12; // weights below this get no line while nothing is pointed at

/**
 * `found` is an answer to the question `translate`. `onhover(side, index or null)` and `onpick(side, index)` report what
 * the user points at; the caller, who may have several alignments, then calls `show` or `rest`.
 */
export function alignment(found, { tokens, names, langs = {}, onhover, onpick }) {
  const unit = tokens ? "tokens" : "words";
  const weights = found.weights?.[unit] ?? null;
  const side = (name, more) =>
    sentence(found[name], {
      name: names[name],
      lang: langs[name],
      tokens,
      onhover: (place) => onhover(name, place),
      onpick: (place) => onpick(name, place),
      ...more,
    });
  // Every source word has a colour; a target word has that of the source word it attended to most.
  const hues = found.source[unit].map((_, at) => (weights && isWord(found.source, at) ? hueOf(tokens ? found.source.word_of[at] : at) : null));
  const most = (row) => row.reduce((best, weight, at) => (weight > row[best] ? at : best), 0);
  const sides = {
    source: side("source", { hues }),
    target: side("target", { sure: found.probabilities[unit], hues: weights?.map((row) => (row.length ? hues[most(row)] : null)) }),
  };
  const lines = document.createElementNS(SVG, "svg");
  lines.setAttribute("class", "links");
  lines.setAttribute("aria-hidden", "true");
  const element = make("div", { class: "pair" }, lines, sides.source, sides.target);
  let drawn = [];

  /** The weights between these words of a side and each word of the other: a row, or a sum of columns. */
  function given(name, places) {
    if (name === "target") return weights[places[0]];
    return weights.map((row) => places.reduce((sum, place) => sum + row[place], 0));
  }

  /** Draws links, each [source, target, weight], between the words at their present positions. */
  function draw(links, faint) {
    drawn = [links, faint];
    const all = element.getBoundingClientRect();
    lines.replaceChildren(...links.map(([s, t, weight]) => line(all, s, t, weight * (faint ? 0.5 : 1))));
  }

  function line(all, s, t, weight) {
    const [from, to] = [sides.source.children[s], sides.target.children[t]].map((one) => one.getBoundingClientRect());
    const [x1, y1] = [from.left + from.width / 2 - all.left, from.bottom - all.top];
    const [x2, y2] = [to.left + to.width / 2 - all.left, to.top - all.top];
    const bend = Math.max(18, (y2 - y1) / 2);
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`);
    path.setAttribute("stroke-opacity", Math.min(1, weight).toFixed(3));
    return path;
  }

  const watch = new ResizeObserver(() => drawn.length && draw(...drawn));
  watch.observe(element);

  return {
    element,
    /** Shows the weights of these words: [word, weight] of each word of the other side, largest first. */
    show(name, places) {
      const other = name === "source" ? "target" : "source";
      mark(sides[name], places);
      mark(sides[other], []);
      ink(sides[name], null);
      if (!weights || !places.length) return [];
      const row = given(name, places);
      ink(sides[other], row);
      const link = ([place, weight]) => (name === "source" ? [places[0], place, weight] : [place, places[0], weight]);
      draw([...row.entries()].filter(([, weight]) => weight >= 0.02).map(link));
      return row.map((weight, place) => [found[other][unit][place], weight]).sort((a, b) => b[1] - a[1]);
    },
    /** Nothing is pointed at: only faint lines. */
    rest() {
      for (const one of Object.values(sides)) {
        ink(one, null);
        mark(one, []);
      }
      const links = weights?.flatMap((row, t) => [...row.entries()].map(([s, weight]) => [s, t, weight])) ?? [];
      draw(links.filter(([s, t, weight]) => weight >= FAINTEST && !ends(s, t)), true);
    },
    /** The indexes of the units of a source word. */
    placesOf: (word) => (tokens ? found.source.word_of.flatMap((one, at) => (one === word ? [at] : [])) : [word]),
    /** The word of a source unit; null for the end token and language tags. */
    wordOf: (place) => (tokens ? (isWord(found.source, place) ? found.source.word_of[place] : null) : place),
    leave: () => watch.disconnect(),
  };

  /** Models put much weight on the end token where they need no source word: those lines would only distract. */
  function ends(s, t) {
    return tokens && !(isWord(found.source, s) && isWord(found.target, t));
  }

  function isWord(side, place) {
    return !tokens || side.word_of[place] >= 0;
  }
}
