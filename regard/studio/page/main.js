// The page's frame: tabs, the model menu, and the current view.
import { ask, get, latest, Trouble } from "./ask.js";
import { trouble, waiting } from "./messages.js";
import { direction, pickers } from "./direction.js";
import { fill, make, select } from "./dom.js";
import { experimentPanel } from "./experiment.js";
import { picture } from "./picture.js";
import { change, link, listen, read } from "./state.js";
import { handOver, modelOf, ofModel, prefer, remember } from "./tab_memory.js";
import { terms } from "./terms.js";
import { explained } from "./tooltip.js";
import { themeButton } from "./theme.js";
import { tour } from "./tour.js";
import { groups } from "./views/index.js";

const place = (id) => document.getElementById(id);
const views = new Map(); // by name, in the order of the tabs
let known = { ready: false, models: [], failed: [], views: [], styles: [] };
let menus = null; // the menus of the languages, for a model with several directions
let open = null; // {name, update, leave} of the current view
let shown = null; // {view, model} of the last drawing
let experiment = null; // the panel of the current view's experiments

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
  /** The values to change to open another tab: its model, and what belongs to it. */
  toView: (view, values = {}) => ({ ...toView(view), ...values }),
  has: (view) => views.has(view),
  /** Whether there is such a view, and it can show the current model. */
  opens: (view) => views.has(view) && Boolean(views.get(view).suits?.(studio.model) ?? true),
  get state() {
    return read();
  },
  /** Whether the server is still loading its models: questions to them fail. */
  get loading() {
    return !known.ready;
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
  const fitting = view?.suits ? known.models.filter(view.suits) : [];
  return view?.first ? [...fitting.filter(view.first), ...fitting.filter((one) => !view.first(one))] : fitting;
}

/** The chosen model, if the view can show it, or else the one that this tab showed last. */
function modelFor(name) {
  const fitting = suited(name);
  return fitting.find((model) => model.name === read().model) ?? modelOf(name, fitting);
}

/** The values to change in the state to open a tab. */
function toView(name) {
  const model = modelOf(name, suited(name));
  return { view: name, picture: null, ...(model ? { model: model.name, ...handOver(name, lastModel(), model) } : {}) };
}

/** The model that was shown last, on this tab or on one before it. */
const lastModel = () => modelFor(viewName()) ?? shown?.model;

function tab(name, now) {
  const values = toView(name);
  return make(
    "a",
    {
      href: link(values),
      "aria-current": name === now ? "page" : null,
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        if (name !== viewName()) change(values);
      },
    },
    views.get(name).title,
  );
}

function drawTabs() {
  const now = viewName();
  const nav = place("views");
  const focused = [...nav.querySelectorAll("a")].indexOf(document.activeElement);
  const scrolled = nav.scrollLeft;
  fill(
    nav,
    groups.map(({ title, views: names }) => {
      const there = names.filter((name) => views.has(name));
      if (!there.length) return null;
      const tabs = there.map((name) => tab(name, now));
      const heading = make("span", { class: "group", "aria-hidden": "true" }, title);
      return make("div", { role: "group", "aria-label": title || null }, heading, make("span", {}, tabs));
    }),
  );
  nav.scrollLeft = scrolled;
  const current = nav.querySelector("[aria-current]");
  if (current && nav.scrollWidth > nav.clientWidth) {
    const [outer, inner] = [nav.getBoundingClientRect(), current.getBoundingClientRect()];
    const room = 32;
    if (inner.left < outer.left + room) nav.scrollLeft += inner.left - outer.left - room;
    if (inner.right > outer.right - room) nav.scrollLeft += inner.right - outer.right + room;
  }
  if (focused >= 0) nav.querySelectorAll("a")[focused]?.focus();
}

/** The user chose another model from the menu. */
function choose(name) {
  const before = modelFor(viewName());
  const after = known.models.find((model) => model.name === name);
  prefer(name);
  change({ ...handOver(viewName(), before, after), model: name });
}

function drawModels() {
  const name = viewName();
  const options = suited(name).map((model) => [model.name, `${model.name}: ${model.title}`]);
  const model = modelFor(name);
  const key = JSON.stringify([options, model?.name, direction(studio, model)]);
  if (place("models").dataset.shown === key) return;
  place("models").dataset.shown = key;
  const held = [...place("models").querySelectorAll("select")].indexOf(document.activeElement);
  const choice = options.length ? select("Model", options, model.name, choose) : null;
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

/** Says so when a tab shows another model than the one before it, and why. */
function drawNotice(name, model) {
  const wanted = read().model;
  const before = shown?.model?.name ?? wanted;
  if (shown?.view === name && shown.model?.name === model?.name) return;
  const chosen = shown?.view === name && wanted === model?.name;
  if (chosen || !model || !before || before === model.name) return fill(place("notice"));
  const view = views.get(name);
  const there = known.models.find((one) => one.name === before);
  const why = !there
    ? `there is no model “${before}” here`
    : view.suits(there)
      ? `${before} was shown on the tab before`
      : `${before} ${typeof view.lacks === "function" ? view.lacks(there) : (view.lacks ?? "cannot be shown in this view")}`;
  fill(place("notice"), "This tab shows ", make("b", {}, model.name), `: ${why}.`);
}

/** `regard/layers/attend.py:attend` -> a link to this function's source. */
function codeLink(code) {
  const [file, name] = code.split(":");
  return make("a", { href: `code/${file}${name ? `#${name}` : ""}`, title: file }, name ?? file.split("/").at(-1));
}

function draw() {
  const name = viewName();
  const model = modelFor(name);
  drawTabs();
  drawModels();
  drawNotice(name, model);
  remember(name, model, read());
  shown = { view: name, model: model ?? shown?.model };
  // The address names the model, so that it is the same one when somebody opens the link or comes back to it.
  if (model && read().model !== model.name) return change({ model: model.name }, { same: true });
  if (open?.name === name) {
    open.update();
    experiment?.update();
    guide.update();
    return;
  }
  open?.leave?.();
  experiment?.leave();
  open = experiment = null;
  const view = views.get(name);
  if (!view) return;
  document.title = `${view.title} · Regard studio`;
  place("title").textContent = view.title;
  place("content").dataset.view = name;
  const codes = [view.code ?? []].flat().map((code, at) => [at ? ", " : "", codeLink(code)]);
  fill(
    place("about"),
    make("p", {}, explained(view.about)),
    view.more || codes.length
      ? make(
          "details",
          {},
          make("summary", {}, "More about this view"),
          [view.more ?? []].flat().map((words) => make("p", {}, explained(words))),
          codes.length ? make("p", {}, "Source code: ", codes, ".") : null,
        )
      : null,
  );
  const own = make("div");
  fill(place("view"), own);
  if (view.suits && !model) {
    fill(own, make("p", {}, view.without ?? "None of the models here can be shown in this view."));
    return;
  }
  try {
    open = { name, update() {}, ...view.show(own, studio) };
    open.name = name;
  } catch (error) {
    console.error(error);
    fill(own, trouble(new Trouble(`This view could not be shown: ${error.message}`)));
  }
  experiment = view.experiments ? experimentPanel(studio, view.experiments) : null;
  if (experiment) place("view").prepend(experiment.element);
  guide.update();
}

async function load() {
  for (const style of known.styles) document.head.append(make("link", { rel: "stylesheet", href: style }));
  const names = groups.flatMap((group) => group.views).filter((one) => known.views.includes(one));
  const modules = await Promise.allSettled(names.map((name) => import(`./views/${name}.js`)));
  modules.forEach(({ value: view, reason }, at) => {
    if (!view) console.error(reason); // the other views still work
    else if (!view.suits || view.without || known.models.some(view.suits)) {
      views.set(names[at], view);
      Object.assign(terms, view.terms);
      for (const name of view.ofModel ?? []) ofModel.add(name);
    }
  });
  prefer(read().model);
}

/** Waits until the server has loaded its models, and shows what it is loading. */
async function begin() {
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  let begun = false; // the start page needs no loaded model: it is drawn from the recipe
  const start = async () => {
    begun = true;
    await load();
    listen(draw);
    draw();
  };
  while (!known.ready) {
    try {
      known = { ...known, ...(await get("models")) };
    } catch (error) {
      if (!begun) fill(place("view"), trouble(error));
      await pause(1000);
      continue;
    }
    if (known.ready) break;
    if (!begun && known.models.length && (read().view ?? "start") === "start") await start();
    if (!begun) fill(place("view"), waiting(known.loading ? `Loading the model ${known.loading} …` : "Starting …"));
    await pause(250);
  }
  if (begun) draw();
  else await start();
  document.documentElement.dataset.ready = "yes";
}

const guide = tour(studio);

themeButton(place("theme"));

place("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after # is the state
  place("content").focus();
});

begin();
