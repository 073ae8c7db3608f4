// A tour of three steps, in a bar at the bottom of the page. The state's `tour` is the step, so a link can begin with it.
import { fill, make } from "./dom.js";

const STEPS = [
  {
    view: "start",
    words: "This is the model: your sentence enters at the top, every block shows what it does and how large its numbers are. Click a block to open what happens in it.",
  },
  {
    view: "translate",
    words: "Type a sentence of your own, then point at a word of the translation: the lines lead to the words that the model attended to when it wrote it.",
  },
  {
    view: "steps",
    words: "The model writes one token at a time. Click another candidate than the one it chose, and let it continue from there.",
  },
];

/** `{update()}` shows the step of the state; nothing outside a tour. */
export function tour(studio) {
  const bar = make("section", { class: "tour", role: "region", "aria-label": "Tour", hidden: true });
  let drawn = "";

  const steps = () => STEPS.filter((one) => studio.has(one.view)); // without a translator there is less to show
  const at = () => Math.round(Number(studio.state.tour ?? 0)) || 0;
  const go = (step) => {
    const { view } = steps()[step - 1];
    studio.change({ ...(view === studio.state.view ? {} : studio.toView(view)), view, tour: step });
  };
  const end = () => studio.change({ tour: null });

  return {
    update() {
      if (!bar.isConnected) document.body.append(bar);
      const step = at();
      const one = steps()[step - 1];
      bar.hidden = !one;
      document.documentElement.classList.toggle("touring", Boolean(one));
      if (!one) {
        drawn = "";
        return;
      }
      if (drawn === String(step)) return;
      drawn = String(step);
      const last = step === steps().length;
      const button = (words, act, more = {}) => make("button", { type: "button", onclick: act, ...more }, words);
      fill(
        bar,
        make("p", { role: "status" }, make("b", {}, `${step} of ${steps().length} `), one.words),
        make(
          "p",
          { class: "moves" },
          step > 1 ? button("Back", () => go(step - 1)) : null,
          last ? null : button("Next", () => go(step + 1), { class: "main" }),
          button(last ? "Done" : "End the tour", end, { class: last ? "main" : "plain" }),
        ),
      );
    },
  };
}
