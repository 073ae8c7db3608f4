// A translation token by token. The user may choose another token, and the model continues from there.
//
// The state's `way` holds the ids of the target tokens, those that the user chose with a `!`; without it they are the
// model's own. `step` is the index of the token that is generated next.

import { bars, share } from "../bars.js";
import { direction, lang, languagesOf } from "../direction.js";
import { textbox, textOf } from "../textbox.js";
import { trouble, waiting } from "../messages.js";
import { debounce, fill, make, select, slider } from "../dom.js";
import { ink, mark, percent, sentence } from "../words.js";

export { experiments } from "../experiments/steps.js";
export const title = "Steps";
export const about =
  "The translation one token at a time: at each step the most likely next tokens, and the attention over the source. Click another candidate and let the model continue from there.";
export const more =
  "The model chooses a token from these probabilities, reads it as its next input, and computes the probabilities again. What you choose is marked and becomes part of the address.";
export const code = ["regard/inspection/record/decoding_step.py:decoding_step", "regard/decoding/opening.py:first_ids"];
export const suits = (model) => model.task === "translate";
export const lacks = "does not translate";

const PACE = 900; // milliseconds per step while playing

export function show(place, studio) {
  const box = textbox(studio);
  const source = make("div");
  const target = make("div", { class: "target", role: "group", "aria-label": "Translation, token by token" });
  const controls = make("div", { class: "controls" });
  const next = make("section", { class: "next" });
  const attention = make("section", { class: "attention" });
  const body = make("div", { class: "steps", "aria-busy": "true" }, source, target, controls, make("div", { class: "two" }, next, attention));
  const message = make("div");
  fill(place, box.element, message, body);
  body.hidden = true;

  let own = null; // {key, way, end, tags}: the model's own translation, the id of the end token, and how many tokens at
  // the beginning say the language: these are given
  let now = null; // the server's answer for this step
  let playing = 0;
  let last = "";

  // The tokens so far, and the current step.

  const key = () => JSON.stringify([studio.model.name, textOf(studio), studio.state.beam ?? "", direction(studio)]);
  const parsed = (way) => way.split(".").filter(Boolean).map((one) => ({ id: parseInt(one, 10), chosen: one.endsWith("!") }));
  const joined = (way) => way.map((one) => `${one.id}${one.chosen ? "!" : ""}`).join(".");
  const tags = () => own?.way.slice(0, own.tags) ?? [];
  const way = () => {
    const found = studio.state.way === undefined ? (own?.way ?? []) : parsed(studio.state.way).filter((one) => one.id >= 0);
    return tags().every((tag, at) => found[at]?.id === tag.id) ? found : [...tags(), ...found];
  };
  const ended = (tokens) => tokens.at(-1)?.id === own?.end;
  const furthest = (tokens) => tokens.length - (ended(tokens) ? 1 : 0);
  const step = () => Math.max(tags().length, Math.min(Number(studio.state.step ?? 0) || 0, furthest(way())));
  const go = (to, same = false) => studio.change({ step: to || null }, { same });
  const asked = () => {
    const request = { model: studio.model.name, text: textOf(studio), ...direction(studio) };
    if (studio.state.beam) request.beam = Number(studio.state.beam);
    return request;
  };

  function choose(token) {
    const at = step();
    const tokens = way();
    if (tokens[at]?.id === token.id) return forward();
    stop();
    const cut = [...tokens.slice(0, at), { id: token.id, chosen: true }];
    studio.change({ way: joined(cut), step: Math.min(at + 1, furthest(cut)) });
    studio.say(`${token.token} was chosen.`);
  }

  function forward() {
    const at = step();
    const tokens = way();
    if (at < furthest(tokens)) go(at + 1);
    else if (!ended(tokens) && now?.next.length) {
      const more = [...tokens, { id: now.next[0].id, chosen: false }];
      studio.change({ way: joined(more), step: Math.min(at + 1, furthest(more)) });
    } else stop();
  }

  /** The model completes this prefix; the user's tokens stay marked. */
  const goOn = studio.latest(
    (signal, begin) => studio.ask("continue_translation", { ...asked(), written: begin.map((one) => one.id) }, signal),
    (answer, begin) => {
      const found = answer.ids.map((id, at) => ({ id, chosen: Boolean(begin[at]?.chosen) }));
      studio.change({ way: joined(found) });
      studio.say(`The model continued: ${answer.target.text}`);
    },
    (error, begin) => fill(message, trouble(error, () => goOn(begin))),
  );

  // Requests.

  const begin = studio.latest(
    (signal) => studio.ask("continue_translation", asked(), signal),
    (answer) => {
      own = { key: key(), way: answer.ids.map((id) => ({ id, chosen: false })), end: answer.end, tags: answer.tags };
      update(true);
    },
    failed,
  );
  const load = studio.latest((signal, request) => studio.ask("decoding_step", request, signal), draw, failed);
  const later = debounce(() => (own?.key === key() ? ask() : begin()), 250);

  function failed(error) {
    stop();
    body.hidden = true;
    const again = make("button", { type: "button", onclick: () => studio.change({ way: null, step: null }) }, "Start again");
    const forced = studio.state.way !== undefined; // perhaps by a link, or for another model: there must be a way out
    const shown = trouble(error, forced ? null : () => update(true));
    if (forced) shown.append(again);
    fill(message, shown);
  }

  function ask() {
    const { beam, ...rest } = asked(); // the beam has no part in a step
    load({ ...rest, written: way().map((one) => one.id), step: step() });
  }

  function update(again = false) {
    box.update();
    const wanted = JSON.stringify([key(), studio.state.way, step()]);
    if (wanted === last && own?.key === key() && !again) {
      if (now) draw(now);
      return;
    }
    const text = last && JSON.parse(last)[0];
    last = wanted;
    body.setAttribute("aria-busy", "true");
    if (text && text !== key() && studio.state.way !== undefined) {
      stop();
      studio.change({ way: null, step: null }, { same: true }); // these tokens belong to another text
      return;
    }
    if (own?.key === key()) ask();
    else if (text && text !== key()) {
      stop();
      later();
    } else {
      fill(message, waiting());
      begin();
    }
  }

  // Drawing.

  function draw(answer) {
    now = answer;
    fill(message);
    body.hidden = false;
    body.setAttribute("aria-busy", "false");
    const tokens = way();
    const at = step();
    fill(source, sentence(answer.source, { name: "Source", tokens: true, lang: lang(languagesOf(answer, studio.model).source) }));
    const weights = weightsOf(answer);
    if (weights) ink(source.firstChild, weights);
    drawTarget(tokens, at);
    drawControls(tokens, at);
    drawNext(tokens, at);
    drawAttention(weights);
    const written = tokens[at] ? answer.written[at] : null;
    studio.say(`Step ${at + 1}: ${written === null ? "no token yet" : written}`);
  }

  function weightsOf({ weights }) {
    if (!weights) return null;
    const [layer, head] = (studio.state.of_head ?? "").split(".").map(Number);
    return weights.layers[layer]?.[head] ?? weights.mean;
  }

  function drawTarget(tokens, at) {
    const held = target.contains(document.activeElement);
    const buttons = now.written.map((token, number) => {
      const { chosen } = tokens[number];
      const said = `${shown(token)}, ${percent(now.probabilities[number])}${chosen ? ", chosen by you" : ""}`;
      return make(
        "button",
        {
          type: "button",
          class: `token${number > at ? " ahead" : ""}${chosen ? " chosen" : ""}`,
          disabled: number < tags().length,
          "aria-current": number === at ? "step" : null,
          "aria-label": said,
          title: said,
          onclick: () => go(number),
        },
        make("bdi", {}, shown(token)),
      );
    });
    if (!ended(tokens)) {
      const open = at === tokens.length;
      buttons.push(make("button", { type: "button", class: "token open", "aria-current": open ? "step" : null, "aria-label": "The next token, not generated yet", onclick: () => go(tokens.length) }, "?"));
    }
    const text = { dir: now.direction, lang: lang(languagesOf(now, studio.model).target) };
    fill(target, make("p", { class: "line", ...text }, buttons), make("p", { class: "faint", ...text }, now.text || "…"));
    if (held) target.querySelector('[aria-current="step"]')?.focus();
  }

  function drawControls(tokens, at) {
    const most = furthest(tokens);
    const held = [...controls.querySelectorAll("button, input")].indexOf(document.activeElement);
    const button = (words, onclick, disabled = false, more = {}) => make("button", { type: "button", onclick, disabled, ...more }, words);
    const chosen = tokens.some((one) => one.chosen);
    fill(
      controls,
      button("← Back", () => (stop(), go(at - 1)), at <= tags().length),
      button("Next →", () => (stop(), forward()), at >= most && ended(tokens)),
      button(playing ? "❚❚ Pause" : "▶ Play", play, !playing && at >= most && ended(tokens)),
      slider("Step", { least: 1 + tags().length, most: Math.max(1, most + 1), value: at + 1, shown: (number) => `${number} of ${most + 1}` }, (number) => (stop(), go(number - 1, true))),
      ended(tokens) ? null : button("Let the model continue", () => (stop(), goOn(tokens)), false, { class: "main" }),
      tokens[at]?.chosen ? button("Undo this choice", () => goOn(tokens.slice(0, at))) : null,
      chosen || (studio.state.way !== undefined && !ended(tokens))
        ? button("Reset to the model's translation", () => (stop(), studio.change({ way: null, step: Math.min(at, furthest(own.way)) || null })))
        : null,
    );
    if (held >= 0) [...controls.querySelectorAll("button, input")][held]?.focus();
  }

  function drawNext(tokens, at) {
    const held = [...next.querySelectorAll("button")].indexOf(document.activeElement);
    const written = tokens[at]?.id;
    const rest = 1 - now.next.reduce((sum, one) => sum + one.probability, 0);
    const heading = written === undefined ? "Top candidates" : "Chosen token and other candidates";
    const rows = now.next.map((one) => ({ label: shown(one.token), value: one.probability, onpick: () => choose(one) }));
    const list = bars(rows, { name: heading });
    [...list.children].forEach((button, place) => {
      button.dataset.id = now.next[place].id;
      button.setAttribute("aria-pressed", String(now.next[place].id === written));
    });
    const elsewhere = written !== undefined && !now.next.some((one) => one.id === written);
    const others = `All other tokens: ${share(Math.max(0, rest))}.`;
    const more = make("p", { class: "faint" }, others, elsewhere ? " The chosen token is one of them." : "");
    fill(next, make("h2", {}, heading), list, more, whyNot(tokens, at));
    if (held >= 0) list.children[held]?.focus();
  }

  /** Links to the tab Why: why this token and not another candidate? It explains the model's own translation alone. */
  function whyNot(tokens, at) {
    if (tokens[at] === undefined || tokens.some((one) => one.chosen)) return null;
    const others = now.next.filter((one) => one.id !== tokens[at].id).slice(0, 3);
    const links = others.map(({ token }) => {
      const values = studio.toView("why", { model: studio.model.name, text: studio.state.text, output: at, contrast: token });
      return make("a", { href: studio.link(values), onclick: follow(values) }, shown(token));
    });
    return make("p", { class: "why-not" }, `Why ${shown(now.written[at])}, and not `, links.flatMap((link, place) => (place ? [", ", link] : [link])), "?");
  }

  /** A plain click changes the state; with a key held down the browser opens the link as it likes. */
  const follow = (values) => (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    studio.change(values);
  };

  function drawAttention(weights) {
    const heading = "Attention over the source";
    if (!weights) {
      const none = "This model has no attention: all the decoder gets of the source is its initial state.";
      fill(attention, make("h2", {}, heading), make("p", { class: "faint" }, none));
      return;
    }
    const held = attention.querySelector("select") === document.activeElement;
    const heads = now.weights.layers.flatMap((layer, l) => layer.map((_, h) => [`${l}.${h}`, `layer ${l}, head ${h}`]));
    const pick = (value) => studio.change({ of_head: value || null });
    const chosen = heads.length > 1 ? select("Heads", [["", "mean of all"], ...heads], studio.state.of_head ?? "", pick) : null;
    const rows = now.source.tokens.map((token, at) => ({ label: shown(token), value: weights[at] }));
    const point = (at) => mark(source.firstChild, at === null ? [] : [at]);
    fill(attention, make("div", { class: "heading" }, make("h2", {}, heading), chosen), bars(rows, { name: heading, onhover: point }));
    if (held) attention.querySelector("select")?.focus();
  }

  // Playback and keys.

  function play() {
    if (playing) return stop(true);
    playing = setInterval(() => (body.getAttribute("aria-busy") === "true" ? null : forward()), PACE);
    if (now) draw(now);
  }

  function stop(drawn = false) {
    clearInterval(playing);
    const was = playing;
    playing = 0;
    if (was && (drawn || now)) drawControls(way(), step());
  }

  body.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, select, .word")) return;
    const back = event.key === "ArrowLeft";
    if (!back && event.key !== "ArrowRight") return;
    event.preventDefault();
    stop();
    if (back) go(Math.max(0, step() - 1));
    else forward();
  });

  update();
  return {
    update: () => update(),
    leave() {
      later.cancel();
      begin.stop();
      load.stop();
      goOn.stop();
      clearInterval(playing);
    },
  };
}

const shown = (token) => (token.startsWith("▁") && token.length > 1 ? `·${token.slice(1)}` : token);
