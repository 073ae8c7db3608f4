// Guided experiments of the view What if.
import { direction } from "../direction.js";
import { signed } from "../panel.js";
import { textOf } from "../textbox.js";

export const experiments = [
  {
    question: "Which head of the last layer's cross-attention does this translation need most?",
    action: "Switch off each in turn",
    suits: (model) => ["transformer", "ssru", "universal"].includes(model.decoder),
    run: (studio, signal) => neediest(studio, signal, "cross", (layer, head) => `decoder.${layer}.cross.head.${head}`),
  },
  {
    question: "Can the decoder do without one of its gates?",
    action: "Switch off each in turn",
    suits: (model) => ["recurrent", "attentional"].includes(model.decoder),
    run: (studio, signal) => neediest(studio, signal, "gates", (layer, gate) => `decoder.${layer}.gate.${gate}`),
  },
];

/** Tries the heads, or gates, of the decoder's last layer one by one, and leaves the one off that costs most. */
async function neediest(studio, signal, what, name) {
  const base = { model: studio.model.name, text: textOf(studio), ...direction(studio) };
  const { parts, before } = await studio.ask("what_if", base, signal);
  const layer = parts.filter((one) => one.side === "decoder" && (what === "gates" ? one.gates.length : one.heads[what])).at(-1);
  const units = what === "gates" ? layer.gates : Array.from({ length: layer.heads[what] }, (_, head) => head);
  const tried = [];
  for (const unit of units) {
    const part = name(layer.layer, unit);
    const { after } = await studio.ask("what_if", { ...base, without: [part] }, signal);
    tried.push({ part, text: after.target.text, value: after.original.log_probability });
  }
  const worst = tried.reduce((one, other) => (other.value < one.value ? other : one));
  const changed = tried.filter((one) => one.text !== before.target.text).length;
  studio.change({ off: worst.part, mean: null, patch: null });
  return `${worst.part}: without it the log-probability of the translation goes from ${signed(before.log_probability)} to ${signed(worst.value)}. ${
    changed ? `${changed} of ${tried.length} change the translation at all` : "None of them changes the translation itself"
  }; the others cost less.`;
}
