// A source above its translation, with lines between them: point at a word and see where the model looked.
// Rows of the weights are the translation's words or tokens, columns the source's.

import { make } from "./parts.js";
import { ink, mark, sentence } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const FAINTEST = 0.12; // what is less is not worth a line while nothing is pointed at

/**
 * `found` is an answer of the question `look`. `onhover(side, place or null)` and `onpick(side, place)` are told what
 * a person points at; what is then shown is for the caller to say, with `show` and `rest`: it may have several pairs.
 */
export function pair(found, { tokens, names, onhover, onpick }) {
  const unit = tokens ? "tokens" : "words";
  const weights = found.weights?.[unit] ?? null;
  const side = (name, more) =>
    sentence(found[name], {
      name: names[name],
      tokens,
      onhover: (place) => onhover(name, place),
      onpick: (place) => onpick(name, place),
      ...more,
    });
  const sides = { source: side("source"), target: side("target", { sure: found.probabilities[unit] }) };
  const lines = document.createElementNS(SVG, "svg");
  lines.setAttribute("class", "links");
  lines.setAttribute("aria-hidden", "true");
  const element = make("div", { class: "pair" }, lines, sides.source, sides.target);
  let drawn = [];

  /** What the words at these places of a side give each word of the other: a row, or the sum of some columns. */
  function given(name, places) {
    if (name === "target") return weights[places[0]];
    return weights.map((row) => places.reduce((sum, place) => sum + row[place], 0));
  }

  /** Draws links, each [source, target, weight], over the words as they stand now. */
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
    /** Where these words looked, or who looked at them: [word, weight] of each on the other side, greatest first. */
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
    /** Nothing is pointed at: faint lines alone. */
    rest() {
      for (const one of Object.values(sides)) {
        ink(one, null);
        mark(one, []);
      }
      const links = weights?.flatMap((row, t) => [...row.entries()].map(([s, weight]) => [s, t, weight])) ?? [];
      draw(links.filter(([s, t, weight]) => weight >= FAINTEST && !ends(s, t)), true);
    },
    /** The places of this pair's source that belong to a word of it, counted among words. */
    placesOf: (word) => (tokens ? found.source.word_of.flatMap((one, at) => (one === word ? [at] : [])) : [word]),
    /** The word that a place of the source belongs to; null for the end mark. */
    wordOf: (place) => (tokens ? (found.source.word_of[place] ?? null) : place),
    leave: () => watch.disconnect(),
  };

  /** The end mark is where a model looks that needs nothing: lines to it would only be many. */
  function ends(s, t) {
    return tokens && (s === found.source.word_of.length || t === found.target.word_of.length);
  }
}
