// Hides parts of the image that the page shows, and asks the model again.
import { quoted } from "./asking.js";

const SHARE = 0.2; // of the patches is hidden

/** The image with some of its places in grey, as a PNG in base64. */
async function hidden({ pixels, rows, columns }, places) {
  const image = new Image();
  image.src = pixels;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  context.fillStyle = "#808080";
  const [wide, high] = [canvas.width / columns, canvas.height / rows];
  for (const place of places) context.fillRect((place % columns) * wide, Math.floor(place / columns) * high, wide, high);
  return canvas.toDataURL("image/png").split(",")[1];
}

/** The attention over the places: a classifier's rollout of the last layer, a captioner's mean over its words. */
function attention(told) {
  const { before, places } = told.scene;
  if (told.target) return places.map((_, at) => told.words.reduce((sum, row) => sum + row[at], 0));
  const rows = told.rollout;
  return (before ? rows[0] : rows[0].map((_, key) => rows.reduce((sum, row) => sum + row[key], 0))).slice(before);
}

export const experiments = [
  {
    question: "Does the model need the patches it attends to?",
    action: "Hide them",
    suits: (model) => model.attention,
    async run(studio, signal) {
      if (studio.state.sample === "own") return "Choose one of the sample images first.";
      const { samples } = await studio.ask("inspect_image", { model: studio.model.name }, signal);
      const name = samples.find((one) => one.name === studio.state.sample)?.name ?? samples[0].name;
      const told = await studio.ask("inspect_image", { model: studio.model.name, sample: name }, signal);
      const weights = attention(told);
      const order = weights.map((_, at) => at).sort((a, b) => weights[b] - weights[a]);
      const count = Math.max(1, Math.round(SHARE * order.length));
      const again = async (places) =>
        studio.ask("inspect_image", { model: studio.model.name, picture: await hidden(told.scene, places) }, signal);
      const [most, least] = [await again(order.slice(0, count)), await again(order.slice(-count))];
      const begin = `With the ${count} of ${order.length} most attended patches in grey`;
      if (told.target) return `${begin}, the caption is ${quoted(most.target.text)} instead of ${quoted(told.target.text)}; with the ${count} least attended ones in grey, ${quoted(least.target.text)}.`;
      const chance = (one) => one.probabilities[told.label].toFixed(3);
      const more = chance(least) - chance(most);
      const verdict = Math.abs(more) < 0.01 ? "That is hardly a difference." : more > 0 ? "The attended patches matter more." : "Here the attended patches do not matter more: attention need not explain the decision.";
      return `${begin}, the probability of ${quoted(told.label)} is ${chance(most)} instead of ${chance(told)}; with the ${count} least attended ones in grey it is ${chance(least)}. ${verdict}`;
    },
  },
];
