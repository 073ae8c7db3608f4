// Guided experiments of the view Near.
import { direction } from "../direction.js";
import { textOf } from "../textbox.js";

export const experiments = [
  {
    question: "Is the nearest neighbour of a word always the same word?",
    action: "Look up every source word",
    run: bySpelling,
  },
];

/** For each source word: is the nearest other example about the same word, or about another one? */
async function bySpelling(studio, signal) {
  const base = { model: studio.model.name, text: textOf(studio), ...direction(studio), side: "source" };
  const bare = (word) => word.toLowerCase().replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
  const first = await studio.ask("near", { ...base, position: 0 }, signal);
  if (!first.near) return "There is no index of this model yet: the page below says how to make one.";
  const same = [];
  const others = [];
  for (const [position, word] of first.source.words.entries()) {
    const { near } = position ? await studio.ask("near", { ...base, position }, signal) : first;
    const [best] = near.neighbours;
    const found = best.source[best.word];
    if (bare(found) === bare(word)) same.push(word);
    else others.push(`${word} (${found})`);
  }
  const count = first.source.words.length;
  return `${same.length} of ${count} words have the same word as their nearest neighbour${others.length ? `; the others: ${others.join(", ")}` : ""}.`;
}
