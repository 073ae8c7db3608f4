// The logit lens of a language model: what it would write after each of its layers.
import { pictureView } from "../picture_view.js";

export const title = "Logit lens";
export const about =
  "The logit lens: the state after each layer, projected to the vocabulary as if that layer were the last. A column is a position of the text, a row a layer; see from which layer on the model knows what comes next.";
export const more =
  "The darker a cell, the more likely its token; a line below it means that it is the token that follows in the text, or, in the last column, the one that the model expects. Point at a cell for the most likely tokens and their probabilities.";
export const code = ["regard/inspection/record/logit_lens.py:layer_logits", "regard/inspection/draw/logit_lens.py"];
export const suits = (model) => model.task === "generate" && model.attention;
export const lacks = "is not a language model with attention";

export const show = (place, studio) => pictureView(place, studio, { view: "logit-lens" });
