// The page's frame: tabs, the model menu, and the current view.
import { ask, get, latest, Trouble } from "./ask.js";
import { trouble, waiting } from "./messages.js";
import { direction, pickers } from "./direction.js";
import { fill, make, select } from "./dom.js";
import { picture } from "./picture.js";
import { change, link, listen, read } from "./state.js";
import { views as names } from "./views/index.js";

const place = (id) => document.getElementById(id);
const views = new Map(); // by name, in the order of the tabs
let known = { ready: false, models: [], failed: [], views: [], styles: [] };
let menus = null; // the menus of the languages, for a model with several directions
let open = null; // {name, update, leave} of the current view

/** The API for views: `state` and `model` are always the current ones. */
const studio = {
  async ask(question, request, signal) {
    const answer = await ask(question, request, signal);
    if (answer.languages && request.model === studio.model?.name) {
      menus?.detected(answer.languages.detected ? answer.languages.source : "");
    }
    return answer;
  },
  get,
  latest,
  picture,
  change,
  say,
  link,
  get state() {
    return read();
  },
  get models() {
    return known.models;
  },
  get model() {
    return modelFor(viewName());
  },
};

/** Announces a change to screen readers. */
function say(words) {
  place("said").textContent = words;
}

function viewName() {
  const wanted = read().view;
  return views.has(wanted) ? wanted : (views.keys().next().value ?? "");
}

function suited(name) {
  const view = views.get(name);
  return view?.suits ? known.models.filter(view.suits) : [];
}

/** The chosen model, if the view supports it, or else the first that it supports. */
function modelFor(name) {
  const fitting = suited(name);
  return fitting.find((model) => model.name === read().model) ?? fitting[0];
}

function drawTabs() {
  const now = viewName();
  const tabs = [...views].map(([name, view]) => {
    const values = { view: name, model: modelFor(name)?.name ?? read().model, picture: null };
    return make(
      "a",
      {
        href: link(values),
        "aria-current": name === now ? "page" : null,
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          change(values);
        },
      },
      view.title,
    );
  });
  const focused = [...place("views").children].indexOf(document.activeElement);
  fill(place("views"), tabs);
  if (focused >= 0) tabs[focused]?.focus();
}

function drawModels() {
  const name = viewName();
  const options = suited(name).map((model) => [model.name, `${model.name}: ${model.title}`]);
  const model = modelFor(name);
  const key = JSON.stringify([options, model?.name, direction(studio, model)]);
  if (place("models").dataset.shown === key) return;
  place("models").dataset.shown = key;
  const held = [...place("models").querySelectorAll("select")].indexOf(document.activeElement);
  const choice = options.length
    ? select("Model", options, model.name, (chosen) => change({ model: chosen }))
    : null;
  const failed = known.failed.length
    ? make(
        "details",
        { class: "failed" },
        make("summary", {}, `${known.failed.length} not available`),
        known.failed.map((one) => make("p", {}, `${one.name}: ${one.why}`)),
      )
    : null;
  menus = pickers(studio, model);
  fill(place("models"), choice, menus?.element, failed);
  if (held >= 0) place("models").querySelectorAll("select")[held]?.focus();
}

/** `regard/layers/attend.py:attend` -> a link to this function's source. */
function codeLink(code) {
  const [file, name] = code.split(":");
  return make("a", { href: `code/${file}${name ? `#${name}` : ""}`, title: file }, name ?? file.split("/").at(-1));
}

function draw() {
  const name = viewName();
  drawTabs();
  drawModels();
  if (open?.name === name) {
    open.update();
    return;
  }
  open?.leave?.();
  open = null;
  const view = views.get(name);
  if (!view) return;
  document.title = `${view.title} · Regard studio`;
  place("title").textContent = view.title;
  const codes = [view.code ?? []].flat();
  fill(
    place("about"),
    view.about,
    codes.length ? [" Source code: ", codes.map((code, at) => [at ? ", " : "", codeLink(code)]), "."] : null,
  );
  const own = make("div");
  fill(place("view"), own);
  if (view.suits && !modelFor(name)) {
    fill(own, make("p", {}, "None of the models here has this view."));
    return;
  }
  try {
    open = { name, update() {}, ...view.show(own, studio) };
    open.name = name;
  } catch (error) {
    console.error(error);
    fill(own, trouble(new Trouble(`This view could not be shown: ${error.message}`)));
  }
}

async function load() {
  for (const style of known.styles) document.head.append(make("link", { rel: "stylesheet", href: style }));
  for (const name of names.filter((one) => known.views.includes(one))) {
    try {
      views.set(name, await import(`./views/${name}.js`));
    } catch (error) {
      console.error(error); // the other views still work
    }
  }
  for (const [name, view] of [...views]) if (view.suits && !suited(name).length) views.delete(name);
}

/** Waits until the server has loaded its models, and shows what it is loading. */
async function begin() {
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  while (!known.ready) {
    try {
      known = { ...known, ...(await get("models")) };
    } catch (error) {
      fill(place("view"), trouble(error));
      await pause(1000);
      continue;
    }
    if (known.ready) break;
    fill(place("view"), waiting(known.loading ? `Loading the model ${known.loading} …` : "Starting …"));
    await pause(250);
  }
  await load();
  listen(draw);
  draw();
  document.documentElement.dataset.ready = "yes";
}

// Light, dark, or the system's setting.
const THEMES = ["auto", "light", "dark"];
function theme(chosen) {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  place("theme").textContent = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" }[chosen];
  place("theme").title = "Colours: light, dark, or the system setting";
  place("theme").onclick = () => {
    const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", next);
    } catch {
      // storage is not available
    }
    theme(next);
  };
}
let stored = null;
try {
  stored = localStorage.getItem("theme");
} catch {
  // storage is not available
}
theme(THEMES.includes(stored) ? stored : "auto");

place("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after # is the state
  place("content").focus();
});

begin();
