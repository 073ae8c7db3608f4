import { number } from "../svg.js";

export const experiments = [
  {
    question: "Is this run still getting better?",
    action: "Look at its validation loss",
    async run(studio, signal) {
      const { runs } = await studio.get("runs", signal);
      const name = runs.find((one) => one.name === studio.state.run)?.name ?? runs[0]?.name;
      if (!name) return "There is no training run yet.";
      const path = name.split("/").map(encodeURIComponent).join("/");
      const { validations, logs } = await studio.get(`runs/${path}`, signal);
      const found = validations.filter((one) => typeof one.scores.loss === "number").map((one) => [one.step, one.scores.loss]);
      if (found.length < 2) return `${name} has too few validations with a loss to tell.`;
      const best = found.reduce((least, one) => (one[1] < least[1] ? one : least));
      const last = found.at(-1);
      const trained = logs.filter((one) => typeof one.loss === "number" && one.step >= best[0]);
      const falls = trained.length > 1 && trained.at(-1).loss < trained[0].loss;
      if (best[0] === last[0]) return `Yes: the validation loss of ${name} is lowest at its last validation, step ${last[0]}: ${number(last[1], 4)}.`;
      const why = falls ? "The training loss has fallen since then: it learns its training data by heart (overfitting)." : "The training loss has not fallen since then either.";
      return `No: the validation loss of ${name} was lowest at step ${best[0]} (${number(best[1], 4)}) and is ${number(last[1], 4)} at step ${last[0]}. ${why}`;
    },
  },
];
