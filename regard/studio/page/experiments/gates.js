import { about, token, tooltips } from "./asking.js";

export const experiments = [
  {
    question: "At which token does this layer keep least of its state?",
    action: "Find it",
    async run(studio, signal) {
      const only = Math.max(0, Math.round(Number(studio.state.picture)) || 0);
      const { pictures } = await studio.ask("draw_view", { ...about(studio), view: "gates", only }, signal);
      const drawn = pictures.find((one) => one.svg);
      const means = tooltips(drawn.svg).map((words) => /^(\w+), mean, (.*): (\S+)$/su.exec(words)).filter(Boolean);
      // An LSTM multiplies its cell state by the forget gate, a GRU its state by the update gate: 1 keeps all of it.
      const gate = ["forget", "update"].find((name) => means.some((one) => one[1] === name));
      if (!gate) return "This kind of layer has no gate that keeps its state.";
      const kept = means.filter((one) => one[1] === gate).map(([, , name, value]) => [name, Number(value)]);
      const least = kept.reduce((best, one) => (one[1] < best[1] ? one : best));
      const most = kept.reduce((best, one) => (one[1] > best[1] ? one : best));
      return `In ${drawn.heading}, the ${gate} gate is lowest at ${token(least[0])}: there the layer keeps ${Math.round(100 * least[1])} % of its state on average, and ${Math.round(100 * most[1])} % at ${token(most[0])}.`;
    },
  },
];
