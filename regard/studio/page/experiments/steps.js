import { about, quoted, token } from "./asking.js";
import { percent } from "../words.js";

export const experiments = [
  {
    question: "What if the model had begun with its second choice?",
    action: "Force it, and continue",
    async run(studio, signal) {
      const own = await studio.ask("continue_translation", about(studio), signal);
      const given = own.ids.slice(0, own.tags);
      const step = await studio.ask("decoding_step", { ...about(studio), written: given, step: given.length }, signal);
      const other = step.next.find((one) => one.id !== own.ids[given.length]);
      if (!other || other.id === own.end) return "The only alternative here is to end the translation.";
      const forced = await studio.ask("continue_translation", { ...about(studio), written: [...given, other.id] }, signal);
      const way = forced.ids.map((id, at) => `${id}${at === given.length ? "!" : ""}`).join(".");
      studio.change({ way, step: null });
      const first = step.next.find((one) => one.id === own.ids[given.length]);
      const chances = `${percent(other.probability)}${first ? ` instead of ${percent(first.probability)}` : ""}`;
      return `Beginning with ${token(other.token)} (${chances}), it writes ${quoted(forced.target.text)} instead of ${quoted(own.target.text)}. Below is this translation; “Reset” brings back the model's own.`;
    },
  },
  {
    question: "Where was the model least certain?",
    action: "Go there",
    async run(studio, signal) {
      const own = await studio.ask("continue_translation", about(studio), signal);
      const written = own.probabilities.slice(own.tags);
      const least = written.indexOf(Math.min(...written)) + own.tags;
      studio.change({ way: null, step: least || null });
      const step = await studio.ask("decoding_step", { ...about(studio), written: own.ids, step: least }, signal);
      const other = step.next.find((one) => one.id !== own.ids[least]);
      const rival = other ? ` The strongest other candidate is ${token(other.token)} with ${percent(other.probability)}.` : "";
      return `At step ${least + 1}: it gave ${token(own.target.tokens[least])} a probability of ${percent(own.probabilities[least])}.${rival}`;
    },
  },
];
