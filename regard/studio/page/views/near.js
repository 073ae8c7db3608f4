// The training examples whose words look most alike to the model, for one word of the sentence or its translation.
import { direction, lang, languagesOf } from "../direction.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make } from "../dom.js";
import { textbox, textOf } from "../textbox.js";
import { mark, sentence } from "../words.js";

export { experiments } from "../experiments/near.js";
export const title = "Near";
export const about =
  "Press a word: below are the words of training examples whose state in the model is nearest to it, by cosine similarity. They show what the model takes for alike.";
export const more =
  "The state of a source word is the encoder's output, that of a target word the decoder's last state when it wrote the word, each the mean over the word's tokens. All words of the index are compared. This follows Seq2Seq-Vis (Strobelt et al. 2018).";
export const code = [
  "regard/inspection/word_index.py:WordIndex.nearest",
  "regard/inspection/word_index.py:sentence_states",
  "regard/inspection/record/near.py:near",
];
export const suits = (model) => model.task === "translate";
export const lacks = "does not translate";
export const ofModel = ["word", "side"];
export const terms = { "nearest neighbours": "The stored vectors with the smallest angle to a given one." };

const PAUSE = 250;

export function show(place, studio) {
  const box = textbox(studio);
  const texts = make("div", { class: "near-texts" });
  const list = make("div", { class: "near-list" });
  const pictures = make("details", { class: "pictures" });
  fill(place, make("div", { class: "near" }, box.element, texts, list, pictures));
  let last = "";
  let answer = null;

  const side = () => (studio.state.side === "source" ? "source" : "target");
  const request = () => ({
    model: studio.model.name,
    text: textOf(studio),
    ...direction(studio),
    side: side(),
    position: Math.max(0, Math.round(Number(studio.state.word)) || 0),
  });
  const load = studio.latest(
    (signal, wanted) => studio.ask("near", wanted, signal),
    (found) => {
      answer = found;
      list.setAttribute("aria-busy", "false");
      draw();
      studio.say(found.near ? `${found.near.neighbours.length} words nearest to ${found.near.word}` : "no index");
    },
    (error, wanted) => {
      list.setAttribute("aria-busy", "false");
      fill(texts);
      fill(pictures);
      fill(list, trouble(error, () => load(wanted)));
    },
  );

  function draw() {
    const held = texts.contains(document.activeElement);
    const langs = languagesOf(answer, studio.model);
    const rows = ["source", "target"].map((one) => {
      const name = one === "source" ? "Source" : "Translation";
      const whole = sentence(answer[one], {
        name: `${name}: press a word`,
        lang: lang(langs[one]),
        onpick: (at) => studio.change({ side: one === "source" ? "source" : null, word: at || null }),
      });
      const chosen = answer.near?.side === one ? answer.near.position : -1;
      if (chosen >= 0) mark(whole, [chosen]);
      for (const [at, button] of [...whole.children].entries()) button.setAttribute("aria-pressed", at === chosen);
      return make("div", {}, make("span", { class: "faint" }, name), whole);
    });
    fill(texts, rows);
    if (held) texts.querySelector('[aria-pressed="true"]')?.focus();
    if (!answer.near) {
      fill(pictures);
      const command = `regard index ${studio.model.name} --source FILE --target FILE`;
      fill(
        list,
        make("p", {}, answer[side()].words.length ? "There is no index of this model yet. Make one from the text it was trained on, then look again:" : "The translation is empty: there is no word to look up."),
        make("pre", { tabindex: "0" }, make("code", {}, command)),
        make("button", { type: "button", onclick: () => load(request()) }, "Look again"),
      );
      return;
    }
    const { near } = answer;
    const line = (words, at, code) =>
      make("p", { dir: "auto", lang: lang(code) }, words.map((word, number) => [number ? " " : "", number === at ? make("mark", {}, word) : word]));
    fill(
      list,
      make("h2", {}, "Nearest to ", make("bdi", {}, near.word), ` among the words of ${near.sentences.toLocaleString("en")} examples`),
      make(
        "ol",
        {},
        near.neighbours.map((one) =>
          make(
            "li",
            { "data-similarity": one.similarity },
            make("span", { class: "similarity" }, one.similarity.toFixed(2).replace("-", "−")),
            make("div", {}, line(one.source, near.side === "source" ? one.word : -1, langs.source), line(one.target, near.side === "target" ? one.word : -1, langs.target)),
          ),
        ),
      ),
    );
    fill(pictures, make("summary", {}, "As a picture"), answer.pictures.map((one) => studio.picture({ about: answer.about, ...one })));
  }

  const later = debounce(load, PAUSE);
  function update() {
    box.update();
    const wanted = request();
    const key = JSON.stringify(wanted);
    if (key === last) return;
    const before = last ? JSON.parse(last) : {};
    last = key;
    load.stop();
    later.cancel();
    list.setAttribute("aria-busy", "true");
    if (before.model !== wanted.model) {
      fill(texts);
      fill(pictures);
      fill(list, waiting());
    }
    if (before.model !== wanted.model || before.text === wanted.text) load(wanted);
    else later(wanted);
  }
  update();
  return {
    update,
    leave() {
      later.cancel();
      load.stop();
    },
  };
}
