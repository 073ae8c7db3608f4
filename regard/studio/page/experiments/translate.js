import { textOf } from "../textbox.js";
import { about, quoted } from "./asking.js";
import { signed } from "../panel.js";

const MOST = 20; // words that are translated one by one

export const experiments = [
  {
    question: "Does the model need the whole sentence?",
    action: "Translate word by word",
    async run(studio, signal) {
      const words = textOf(studio).split(/\s+/).filter(Boolean).slice(0, MOST);
      if (words.length < 2) return "Type a sentence of several words first.";
      const whole = await studio.ask("translate", about(studio, words.join(" ")), signal);
      const alone = [];
      for (const word of words) alone.push((await studio.ask("translate", about(studio, word), signal)).target.text.trim());
      const same = plain(alone.join(" ")) === plain(whole.target.text);
      const end = same ? "This sentence needs no context." : "Each word was translated without the others: what differs comes from their context.";
      return `Word by word: ${quoted(alone.join(" "))}. The sentence as a whole: ${quoted(whole.target.text)}. ${end}`;
    },
  },
  {
    question: "How much does the last mark matter?",
    action: "Take it away, or add one",
    async run(studio, signal) {
      const text = textOf(studio).trim();
      const marked = /\p{P}$/u.test(text);
      const other = marked ? text.replace(/\s*\p{P}+$/u, "") : `${text}.`;
      if (!other) return "Type a sentence first.";
      const [before, after] = [await studio.ask("translate", about(studio, text), signal), await studio.ask("translate", about(studio, other), signal)];
      const same = plain(before.target.text) === plain(after.target.text);
      const change = marked ? "Without it" : "With a full stop";
      return `${change} the model writes ${quoted(after.target.text)} (score ${signed(after.score)}) instead of ${quoted(before.target.text)} (score ${signed(before.score)}): ${same ? "the words stay the same." : "a single mark changes the words."}`;
    },
  },
];

/** The words alone, to compare two translations. */
const plain = (text) => text.toLowerCase().replace(/[\p{P}\s]+/gu, " ").trim();
