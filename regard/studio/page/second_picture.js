// A second picture of a view, below the first: one unit of the gates, the similarity to one position.
import { direction } from "./direction.js";
import { trouble } from "./messages.js";
import { fill, make } from "./dom.js";
import { textOf } from "./textbox.js";

/**
 * `{element, ask(fields), update(), leave()}`: `fields` are those of the question draw_view; without a change nothing is
 * asked. `update` removes the picture of another model.
 */
export function secondPicture(studio) {
  const element = make("div", { class: "pictures second" });
  let last = "";
  const load = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (answer) => {
      element.setAttribute("aria-busy", "false");
      const drawn = answer.pictures.find((one) => one.svg);
      fill(element, studio.picture({ about: answer.about, ...drawn }));
      studio.say(drawn.heading);
    },
    (error, wanted) => {
      element.setAttribute("aria-busy", "false");
      fill(element, trouble(error, () => load(wanted)));
    },
  );
  return {
    element,
    ask(fields) {
      const wanted = { model: studio.model.name, text: textOf(studio), ...direction(studio), ...fields };
      if (last === (last = JSON.stringify(wanted))) return;
      element.setAttribute("aria-busy", "true");
      load(wanted);
    },
    update() {
      if (!last || JSON.parse(last).model === studio.model.name) return;
      load.stop();
      last = "";
      element.setAttribute("aria-busy", "false");
      fill(element);
    },
    leave: () => load.stop(),
  };
}
