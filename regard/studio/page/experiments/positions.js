import { about, tooltips } from "./asking.js";

const DISTANCES = [1, 2, 4, 8, 16];

export const experiments = [
  {
    question: "Do these vectors tell how far apart two positions are?",
    action: "Compare",
    async run(studio, signal) {
      const position = 20;
      const number = Math.max(0, Math.round(Number(studio.state.picture)) || 0);
      const wanted = { ...about(studio), view: "positions", position, only: number };
      const { pictures } = await studio.ask("draw_view", wanted, signal);
      const found = tooltips(pictures.find((one) => one.svg).svg).map((words) => Number(words.split(": ").at(-1)));
      if (found.length <= position + 1) return "This model has too few positions to compare.";
      const there = DISTANCES.filter((far) => position + far < found.length);
      const falls = there.every((far, at) => !at || found[position + far] <= found[position + there[at - 1]] + 1e-6);
      const even = Math.max(...there.filter((far) => far <= position).map((far) => Math.abs(found[position + far] - found[position - far])));
      studio.change({ place: position });
      const listed = there.map((far) => `${found[position + far].toFixed(2)} at distance ${far}`).join(", ");
      const end = even < 1e-4 ? "It is the same to the left and to the right: the similarity tells the distance, not the direction." : `To the left it differs by up to ${even.toFixed(2)}.`;
      return `The cosine similarity to position ${position} is ${listed}. ${falls ? "It falls with the distance." : "It does not fall steadily with the distance."} ${end}`;
    },
  },
];
