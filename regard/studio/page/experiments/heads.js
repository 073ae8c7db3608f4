import { about } from "./asking.js";
import { percent } from "../words.js";

/** The head with the largest mean weight on a neighbour. */
const looking = (name, words) => ({
  question: `Which head attends to the ${words}?`,
  action: "Find it",
  suits: (model) => ["transformer", "universal"].includes(model.encoder || model.decoder),
  async run(studio, signal) {
    const { attention, called, heads } = await studio.ask("head_roles", about(studio), signal);
    const best = heads.reduce((most, one) => (one[name] > most[name] ? one : most));
    const mean = heads.reduce((sum, one) => sum + one[name], 0) / heads.length;
    studio.change({ attention, layer: best.layer, head: best.head });
    const end = best[name] > 0.5 ? "It follows the order of the words, not their meaning." : "No head does so exclusively on this text.";
    return `Layer ${best.layer}, head ${best.head} (${called}): on average ${percent(best[name])} of its attention weight is on the ${words}; the mean over all ${heads.length} heads is ${percent(mean)}. ${end}`;
  },
});

export const experiments = [looking("previous", "previous token"), { ...looking("next", "next token"), suits: (model) => ["transformer", "universal"].includes(model.encoder) }];
