import { KINDS } from "../attention_kinds.js";
import { about, quoted } from "./asking.js";
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

const signed = (value) => value.toFixed(2).replace("-", "−");

/** The name of a head among the parts that can be switched off (the question what_if). */
const partOf = (kind, layer, head) => `${kind === "source" ? "encoder" : "decoder"}.${layer}.${kind === "cross" ? "cross" : "self"}.head.${head}`;

const masking = {
  question: "Mask this head: what changes?",
  action: "Mask it",
  suits: (model) => model.task === "translate" && ["transformer", "universal"].includes(model.decoder),
  async run(studio, signal) {
    const { attention, layer = 0, head = 0 } = studio.state;
    const kind = KINDS[attention] ? attention : "cross";
    const part = partOf(kind, Number(layer) || 0, Number(head) || 0);
    const { before, after } = await studio.ask("what_if", { ...about(studio), without: [part] }, signal);
    const [was, is] = [before.log_probability, after.original.log_probability];
    const same = after.target.text === before.target.text;
    const text = same ? `it still writes ${quoted(before.target.text)}` : `it writes ${quoted(after.target.text)} instead of ${quoted(before.target.text)}`;
    const end = Math.abs(was - is) < 0.05 ? "The model hardly needs this head here." : is < was ? "The head helped." : "The model is even more certain without it.";
    return `Without layer ${Number(layer) || 0}, head ${Number(head) || 0} (${KINDS[kind]}), ${text}; the log-probability of its own translation goes from ${signed(was)} to ${signed(is)}. ${end}`;
  },
};

export const experiments = [masking, looking("previous", "previous token"), { ...looking("next", "next token"), suits: (model) => ["transformer", "universal"].includes(model.encoder) }];
