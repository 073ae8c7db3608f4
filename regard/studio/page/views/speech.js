// The transcript of a recording: a spectrogram under an overlay that is clear where the model attended for a word.
import { Trouble } from "../ask.js";
import { trouble, waiting } from "../messages.js";
import { base64 } from "../drawing_pad.js";
import { fill, make, select } from "../dom.js";
import { captioned, choices, followed, keep, notes, views } from "./vision.js";

export const title = "Sound";
export const about =
  "Choose a recording and point at a word of its transcript to see where in time the model attended when it wrote the word. Click to pin.";
export const more =
  "The picture is the spectrogram that the model reads: time from left to right, low frequencies at the bottom, loud is bright. The attention of a word usually lies where the word is spoken, and moves to the right from word to word.";
export const code = [
  "regard/stem/log_mel.py:LogMel",
  "regard/inspection/record/caption.py:record_caption",
  "regard/task/_recordings.py:Windows",
];
export const suits = (model) => model.task === "transcribe";
export const lacks = "does not read sound";

const KINDS = "audio/wav,audio/x-wav,audio/flac,audio/ogg,.wav,.flac,.ogg";
const MOST_BYTES = 670_000; // what fits into a question

export function show(place, studio) {
  const file = make("input", { type: "file", class: "unseen", accept: KINDS, onchange: () => take(file.files[0]) });
  const choose = make("label", { class: "file" }, file, make("span", {}, "Choose a recording, or drop one here"));
  const languages = make("div", { class: "controls" });
  const stage = make("div", { class: "sight" });
  const answered = make("div", { class: "answer" });
  const controls = make("div", { class: "controls" });
  const below = make("div", { class: "controls" });
  const pictures = make("div", { class: "pictures" });
  fill(
    place,
    make("div", { class: "sources" }, choose, languages),
    make("div", { class: "look" }, stage, make("div", {}, answered, controls)),
    below,
    pictures,
  );
  place.classList.add("vision", "speech");

  let recording = null; // in base64
  let wish = {}; // {spoken, written}, for a model with several languages
  let offered = ""; // the model whose languages are offered
  let asked = "";
  let drawnFor = "";
  let told = null;
  let shown = null;

  const clear = (...instead) => {
    told = shown = null;
    fill(stage, ...instead);
    for (const one of [answered, controls, below, pictures]) fill(one);
  };

  place.addEventListener("dragover", (event) => event.preventDefault());
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });

  async function take(chosen) {
    if (!chosen) return;
    try {
      if (chosen.size > MOST_BYTES) throw new Trouble("This recording is too large for the page (670 KB): use FLAC, a shorter one, or regard inspect.");
      recording = await base64(chosen);
      asked = drawnFor = "";
      if (studio.state.word === undefined) update();
      else studio.change({ word: null });
    } catch (error) {
      recording = null;
      asked = drawnFor = "";
      clear(trouble(error));
    }
    file.value = "";
  }

  const offer = studio.latest(
    (signal, model) => studio.ask("inspect_sound", { model }, signal),
    (answer, model) => {
      offered = model;
      wish = {};
      fill(
        languages,
        answer.spoken.length > 1 ? select("Spoken", [["", "detected"], ...answer.spoken], "", (spoken) => say({ spoken })) : null,
        answer.written.length ? select("Written", [["", "as spoken"], ...answer.written], "", (written) => say({ written })) : null,
      );
      const most = answer.seconds ? ` It may last ${Math.round(answer.seconds)} seconds.` : "";
      if (!recording) clear(make("p", { class: "faint" }, `Choose a recording: WAV, FLAC or OGG.${most}`));
      update();
    },
    (error, model) => clear(trouble(error, () => offer(model))),
  );

  function say(chosen) {
    wish = Object.fromEntries(Object.entries({ ...wish, ...chosen }).filter(([, code]) => code));
    update();
  }

  const load = studio.latest(
    (signal, wanted) => studio.ask("inspect_sound", wanted, signal),
    (answer, wanted) => {
      told = answer;
      shown = captioned(studio, answer, "spectrogram, moment by moment", "transcript");
      fill(stage, shown.picture, notes(answer));
      fill(answered, answer.target.words.length ? shown.answer : make("p", { class: "faint" }, "The model wrote no words."));
      keep(controls, choices(studio, told));
      keep(below, views(studio, told));
      draw(wanted);
      studio.say(answer.target.text);
    },
    (error, wanted) => clear(trouble(error, () => load(wanted))),
  );

  const drawAll = studio.latest(
    (signal, wanted) => studio.ask("inspect_sound", wanted, signal),
    (answer) => {
      pictures.setAttribute("aria-busy", "false");
      fill(pictures, answer.pictures.map((one) => studio.picture({ about: answer.about, ...one }, {})));
    },
    (error, wanted) => fill(pictures, trouble(error, () => drawAll(wanted))),
  );

  /** The pictures below the spectrogram, with layer and head where they apply. */
  function draw(wanted) {
    const { seeing } = studio.state;
    const view = told.views.includes(seeing) ? seeing : told.views[0];
    const asking = { ...wanted, view };
    if (view === "numbers") Object.assign(asking, followed(studio, told));
    const key = JSON.stringify(asking);
    if (key === drawnFor) return;
    drawnFor = key;
    pictures.setAttribute("aria-busy", "true");
    if (!pictures.childElementCount) fill(pictures, waiting());
    drawAll(asking);
  }

  function update() {
    const { model, state } = studio;
    if (offered !== model.name) {
      if (asked !== `languages of ${model.name}`) {
        asked = `languages of ${model.name}`;
        clear(waiting());
        offer(model.name);
      }
      return;
    }
    if (!recording) return;
    const wanted = { model: model.name, recording, ...wish };
    const counts = { layer: told?.layers, head: told?.heads };
    for (const name of ["layer", "head"]) {
      const number = Number(state[name]);
      if (state[name] !== undefined && number >= 0 && (told?.model !== model.name || number < counts[name])) wanted[name] = number;
    }
    const key = JSON.stringify(wanted);
    if (key !== asked) {
      asked = key;
      if (!told) clear(waiting());
      load(wanted);
    } else if (told) {
      shown.draw();
      keep(controls, choices(studio, told));
      keep(below, views(studio, told));
      draw(wanted);
    }
  }
  update();
  return {
    update,
    leave() {
      offer.stop();
      load.stop();
      drawAll.stop();
    },
  };
}
