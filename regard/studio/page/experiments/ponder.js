import { textOf } from "../textbox.js";
import { about, quoted, token, tooltips } from "./asking.js";

/** The ponder time of each source token, as the picture has it: [token, steps plus remainder]. */
async function times(studio, text, signal) {
  const { pictures } = await studio.ask("draw_view", { ...about(studio, text), view: "ponder", only: 0 }, signal);
  const cells = tooltips(pictures[0].svg).map((words) => /^(.*) (\d+) \+ (\d\.\d+) → step 1:/su.exec(words)).filter(Boolean);
  return cells.map(([, name, steps, rest]) => [name, Number(steps) + Number(rest)]);
}

const mean = (found) => found.reduce((sum, [, time]) => sum + time, 0) / found.length;

export const experiments = [
  {
    question: "Does an unusual order take longer to read?",
    action: "Reverse the words",
    async run(studio, signal) {
      const words = textOf(studio).trim().split(/\s+/);
      if (words.length < 2) return "Type a sentence of several words first.";
      const reversed = words.toReversed().join(" ");
      const before = await times(studio, words.join(" "), signal);
      const after = await times(studio, reversed, signal);
      const [now, then] = [mean(after), mean(before)];
      const most = before.reduce((best, one) => (one[1] > best[1] ? one : best));
      const end = Math.abs(now - then) < 0.05 ? "That is hardly a difference: the time depends on the tokens, not on their order." : now > then ? "The reversed sentence takes longer." : "The reversed sentence is read faster.";
      return `The mean ponder time of a source token is ${then.toFixed(2)}, and ${now.toFixed(2)} for ${quoted(reversed)}. ${end} In the sentence itself, ${token(most[0])} took longest: ${most[1].toFixed(2)}.`;
    },
  },
];
