import { fill, make } from "../dom.js";
import { textOf } from "../textbox.js";
import { share } from "../bars.js";

const TEMPERATURES = [0.3, 1, 2];
const LENGTH = 60;

export const experiments = [
  {
    question: "What does temperature do to the text?",
    action: "Generate at 0.3, 1 and 2",
    async run(studio, signal) {
      const asked = { model: studio.model.name, text: textOf(studio), length: LENGTH, seed: Number(studio.state.seed ?? 1) };
      const list = make("dl", { class: "samples-of" });
      for (const temperature of TEMPERATURES) {
        const found = await studio.ask("generate", { ...asked, temperature }, signal);
        const sure = Math.exp(found.probabilities.reduce((sum, one) => sum + Math.log(one), 0) / (found.probabilities.length || 1));
        list.append(make("dt", {}, `${temperature} · mean probability ${share(sure)}`), make("dd", { dir: "auto" }, found.text));
      }
      const whole = make("div");
      fill(whole, list, "The same seed each time. Low temperatures repeat what is likely; high ones try what is unlikely. The mean is the geometric mean of the probabilities with which the tokens were sampled.");
      return whole;
    },
  },
  {
    question: "How many tokens could come next?",
    action: "Count them",
    async run(studio, signal) {
      const found = await studio.ask("next_token", { model: studio.model.name, text: textOf(studio), count: 200 }, signal);
      const count = (most) => found.tokens.reduce(({ sum, at }, one) => (sum >= most ? { sum, at } : { sum: sum + one.probability, at: at + 1 }), { sum: 0, at: 0 }).at;
      return `${count(0.5)} of ${found.vocabulary.toLocaleString("en")} tokens have half of the probability, ${count(0.9)} have 90 %. With top-p at 0.9 only these could be sampled.`;
    },
  },
];
