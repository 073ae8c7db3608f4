import { about, quoted } from "./asking.js";
import { signed } from "../panel.js";

const WIDTHS = [1, 2, 4, 8];

/** The score by which beam search chooses (hypothesis.py): that of a greedy search is its plain log-probability. */
export function scoreOf({ log_probability: sum, length_penalty: exponent, target }) {
  const tags = target.word_of.filter((word) => word < 0).length;
  return sum / ((5 + target.tokens.length - tags) / 6) ** exponent;
}

export const experiments = [
  {
    question: "Does a wider beam find a better translation?",
    action: "Try widths 1 to 8",
    async run(studio, signal) {
      const found = [];
      for (const beam of WIDTHS) found.push(await studio.ask("translate", { ...about(studio), beam }, signal));
      const lines = found.map((one, at) => `width ${WIDTHS[at]}: ${quoted(one.target.text)}, score ${signed(scoreOf(one))}`);
      const best = Math.max(...found.map(scoreOf));
      const enough = WIDTHS[found.findIndex((one) => scoreOf(one) >= best - 1e-6)];
      const end = enough === 1 ? "Greedy search finds the best of these already." : `A beam width of ${enough} finds the best score of these.`;
      return `${lines.join("; ")}. ${end}`;
    },
  },
];
