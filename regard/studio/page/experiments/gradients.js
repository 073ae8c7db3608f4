import { about, token } from "./asking.js";

const number = (value) => Number(value.toPrecision(2));

export const experiments = [
  {
    question: "How far back does this output's gradient reach?",
    action: "Measure it",
    async run(studio, signal) {
      const { output } = studio.state;
      const position = output === undefined ? {} : { position: Math.max(0, Math.round(Number(output)) || 0) };
      const found = await studio.ask("gradients", { ...about(studio), ...position }, signal);
      const track = found.tracks.find((one) => one.what === "vector" && one.side === "source") ?? found.tracks.find((one) => one.what === "vector");
      const norms = track.norms.filter((one) => one !== null);
      if (norms.length < 2) return "Type a longer text first.";
      const total = norms.reduce((sum, one) => sum + one, 0);
      const most = Math.max(...norms);
      const ratio = norms[0] > 0 ? most / norms[0] : Infinity;
      const input = track.side === "source" ? "source" : "text";
      const share = Math.round((100 * most) / total);
      const end = ratio > 100 ? "Almost nothing of it arrives there: the gradient vanishes on the way." : ratio > 5 ? "It is much weaker there, but has not vanished." : "It reaches the beginning.";
      return `For ${token(found.token)}, the largest gradient norm (${share} % of the sum) is at token ${norms.indexOf(most) + 1} of ${norms.length} of the ${input}; at the first token it is ${ratio === Infinity ? "zero" : ratio <= 1.001 ? "as large" : `${number(ratio)} times smaller`}. ${end}`;
    },
  },
];
