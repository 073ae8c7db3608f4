// A guided experiment: a question, a button that does it with the model at hand, and the answer.
import { explained } from "./tooltip.js";
import { fill, make } from "./dom.js";

/** `{element, update()}`: the first experiment that suits the model, and a button for the next one if there are more. */
export function experimentPanel(studio, experiments) {
  const question = make("p", { class: "question" });
  const answer = make("p", { class: "answer", role: "status" });
  const element = make("section", { class: "experiment", "aria-label": "Guided experiment" }, question, answer);
  let at = 0;
  let drawn = "";
  let answered = "";

  const fitting = () => experiments.filter((one) => !one.suits || (studio.model && one.suits(studio.model)));
  const subject = () => JSON.stringify([studio.model?.name, studio.state.text, at]);
  const run = studio.latest(
    (signal, one) => one.run(studio, signal),
    (words) => {
      element.setAttribute("aria-busy", "false");
      answered = subject(); // the experiment may itself have changed the state
      fill(answer, typeof words === "string" ? explained(words) : words);
    },
    (error) => {
      element.setAttribute("aria-busy", "false");
      fill(answer, error.message);
    },
  );

  function update() {
    const all = fitting();
    element.hidden = !all.length;
    if (!all.length) return;
    at %= all.length;
    const one = all[at];
    const key = JSON.stringify([one.question, all.length]);
    if (key !== drawn) {
      const next = () => {
        at += 1;
        update();
        question.querySelector("button.act").focus();
      };
      const act = () => {
        element.setAttribute("aria-busy", "true");
        fill(answer, "…");
        answered = subject();
        run(fitting()[at % fitting().length]);
      };
      fill(
        question,
        make("strong", {}, "Experiment "),
        explained(one.question),
        " ",
        make("button", { type: "button", class: "act", onclick: act }, one.action),
        all.length > 1 ? make("button", { type: "button", class: "plain", onclick: next }, "Another one") : null,
      );
    }
    drawn = key;
    if (answered && answered !== subject() && element.getAttribute("aria-busy") !== "true") {
      answered = "";
      fill(answer); // it was of another sentence or model
    }
  }
  update();
  return { element, update, leave: () => run.stop() };
}
