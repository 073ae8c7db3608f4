// The frame that several views share: a text box, and the pictures of one of Python's views.
import { direction } from "./direction.js";
import { textbox, textOf } from "./textbox.js";
import { trouble, waiting } from "./messages.js";
import { debounce, fill, make, select } from "./dom.js";

const PAUSE = 250; // milliseconds without a key before the server is asked

/**
 * Shows the pictures of a view (regard/inspection/draw/views). `choices(studio)` are further controls, `fields(studio)`
 * further fields of the question. Of several pictures one is shown, whose number is the state's `picture`, unless `all`.
 * `onpick(at)` is called with the mark that is clicked, `ondrawn(element)` once the pictures are there.
 */
export function pictureView(place, studio, { view, typed = true, choices = () => [], fields = () => ({}), all = false, onpick, ondrawn }) {
  const box = typed ? textbox(studio) : null;
  const controls = make("div", { class: "controls" });
  const shown = make("div", { class: "pictures", "aria-busy": "false" });
  fill(place, box?.element, controls, shown);
  let last = "";

  const request = () => {
    const number = Number(studio.state.picture ?? 0);
    return { model: studio.model.name, text: textOf(studio), view, ...direction(studio), ...fields(studio), ...(all ? {} : { only: number }) };
  };
  const load = studio.latest(
    (signal, wanted) => studio.ask("draw_view", wanted, signal),
    (answer, wanted) => {
      const several = !all && answer.pictures.length > 1;
      const options = answer.pictures.map((one, number) => [number, one.heading]);
      const pick = (number) => studio.change({ picture: number });
      fill(controls, choices(studio), several ? select("Picture", options, wanted.only, pick) : null);
      const drawn = answer.pictures.filter((one) => one.svg);
      fill(shown, drawn.map((one) => studio.picture({ about: answer.about, ...one }, { onpick })));
      ondrawn?.(shown);
      shown.setAttribute("aria-busy", "false");
      studio.say(`${drawn.map((one) => one.heading).join(", ")} of ${answer.texts.map((one) => one.text).join(" → ")}`);
    },
    (error, wanted) => {
      shown.setAttribute("aria-busy", "false");
      if (wanted.only > 0 && !error.again) studio.change({ picture: null }, { same: true }); // this model has fewer pictures
      else fill(shown, trouble(error, () => start(wanted)));
    },
  );
  const start = (wanted) => {
    shown.setAttribute("aria-busy", "true");
    if (!shown.childElementCount || shown.querySelector(".trouble")) fill(shown, waiting());
    load(wanted);
  };
  const later = debounce(start, PAUSE);
  const update = (first = false) => {
    box?.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    if (key === last) return;
    const other = !last || JSON.parse(last).model !== wanted.model;
    last = key;
    load.stop();
    later.cancel();
    shown.setAttribute("aria-busy", "true");
    if (other) fill(shown, waiting()); // never show one model's pictures under another's name
    if (first || other) start(wanted);
    else later(wanted);
  };
  fill(controls, choices(studio));
  update(true);
  return {
    update: () => update(),
    leave() {
      later.cancel();
      load.stop();
    },
  };
}
