import { about, token } from "./asking.js";
import { percent } from "../words.js";

/** The calculation that the page shows. */
const asked = ({ state }) => ({
  attention: ["cross", "source", "target"].includes(state.attention) ? state.attention : "cross",
  ...Object.fromEntries(["layer", "head", "position"].map((name) => [name, Math.max(0, Number(state[name] ?? 0) || 0)])),
});

export const experiments = [
  {
    question: "Why are the dot products divided by the square root of their length?",
    action: "Leave it out",
    suits: (model) => ["transformer", "universal"].includes(model.decoder || model.encoder),
    async run(studio, signal) {
      const { weights, keys, stages } = await studio.ask("numbers", { ...about(studio), ...asked(studio) }, signal);
      const size = Number(/√(\d+)/.exec(stages.find((one) => one.name === "scaling")?.formula ?? "")?.[1]);
      if (!size) return "This attention does not scale its scores.";
      // A softmax of scores that are √d times as large: the weights to the power of √d, normalized.
      const logs = weights.map((one) => Math.sqrt(size) * Math.log(one));
      const powers = logs.map((one) => Math.exp(one - Math.max(...logs)));
      const sum = powers.reduce((all, one) => all + one, 0);
      const most = weights.indexOf(Math.max(...weights));
      const sharp = powers[most] / sum;
      const end = sharp > 0.99 ? "The softmax is saturated: it selects a single token, and almost no gradient reaches the others." : "The weights are sharper, but the softmax is not saturated here.";
      return `Without the division by √${size}, the weight of ${token(keys[most])} is ${percent(sharp)} instead of ${percent(weights[most])}. ${end}`;
    },
  },
  {
    question: "How many tokens does this head really use?",
    action: "Count them",
    async run(studio, signal) {
      const { weights } = await studio.ask("numbers", { ...about(studio), ...asked(studio) }, signal);
      const entropy = weights.reduce((sum, one) => (one > 0 ? sum - one * Math.log(one) : sum), 0);
      const half = [...weights].sort((a, b) => b - a).reduce((left, one) => (left.rest > 0 ? { count: left.count + 1, rest: left.rest - one } : left), { count: 0, rest: 0.9 });
      return `${half.count} of ${weights.length} tokens have 90 % of the attention weight. The weights are as spread out as if they were even over ${Math.exp(entropy).toFixed(1)} tokens (the exponential of their entropy).`;
    },
  },
];
