// A training run, live: its curves, the gradient norms of its layers, and sample outputs.
import { curves } from "../curves.js";
import { heatmap } from "../heatmap.js";
import { liveFigure } from "../live_figure.js";
import { trouble } from "../messages.js";
import { fill, make, select } from "../dom.js";
import { number } from "../svg.js";
import { follow } from "../follow_run.js";
import { samples } from "../samples.js";

export { experiments } from "../experiments/training.js";
export const title = "Training";
export const about =
  "A training run, live: loss, validation scores, learning rate, gradient norms, and the model's outputs for the same few examples.";
export const more =
  "Curves, samples and gradient norms come from the run's own file, metrics.jsonl, and are updated while it is being written. Compare two runs by choosing a second one.";
export const code = ["regard/training/trainer.py:Trainer", "regard/training/loop.py:Loop", "regard/training/gradient_norms.py"];

const LISTED = 5000; // milliseconds between two checks for new runs
const none = ({ name, exists }) =>
  (exists ? `There are no training runs in the folder “${name}” yet.` : `There is no folder “${name}” yet.`) +
  " Runs that “regard train” writes there appear here by themselves; “regard studio --runs FOLDER” watches another folder.";
const SILENT = "This run has not logged any numbers yet.";
const QUIET = "This run has logged no numbers, so there are no curves: “regard train --quiet” writes none.";
const NEGLIGIBLE = 1e-12; // a smaller score is drawn as zero: the BLEU of an untrained model may be 1e-47
const NAMES = { bleu: "BLEU", chrf: "chrF", f1: "F1", wer: "word error rate", mse: "MSE", mae: "MAE" };
const titled = (score) => NAMES[score] ?? score.replaceAll("_", " ");
const rounded = (score) => (typeof score === "number" && Math.abs(score) < NEGLIGIBLE ? 0 : score);
const whole = (count) => count.toLocaleString("en");

export function show(place, studio) {
  let runs = null; // the list; null until it is loaded
  let folder = { name: "runs", exists: true }; // where they are
  let older = 0; // how many runs are not listed
  let followed = []; // the run that is shown, and one to compare it with
  let listed = ""; // what the menus show
  let timer = 0;
  let asking = new AbortController();

  const choices = make("div", { class: "controls" });
  const message = make("div");
  const facts = make("p", { class: "facts" });
  const progress = make("progress", { "aria-label": "Steps taken" });
  const figures = make("div", { class: "curves" });
  const written = samples();
  const table = make("table", { class: "last" });
  const last = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "last" }, table);
  const content = make("div", {}, facts, progress, figures, make("h2", { id: "last" }, "Latest values"), last);
  place.classList.add("training");
  fill(place, choices, message, content);

  // ---------------------------------------------------------------------------------------------------- the figures

  const log = () => studio.state.scale === "log";
  const logged = (run, name) => run.logs.map((entry) => [entry.step, entry[name] ?? null]);
  const scored = (run, name) => run.validations.map((entry) => [entry.step, rounded(entry.scores[name] ?? null)]);

  /** A curve per run: `points(run)`. */
  const ofEach = (name, colour, points, dots = false) =>
    followed.map((run, at) => ({ name: at ? `${name}, ${run.name}` : name, colour, dots, dashed: at > 0, points: points(run) }));

  function range() {
    const ends = followed.flatMap(({ logs, validations }) => [logs.at(0), logs.at(-1), validations.at(0), validations.at(-1)]);
    const steps = ends.filter(Boolean).map((entry) => entry.step);
    return [Math.min(...steps), Math.max(...steps)];
  }

  /** A figure of the curves that `series()` returns; hidden while they have no points. */
  const lines = (told, series) =>
    liveFigure(told, (width, tips) => {
      const there = series().filter((one) => one.points.some(([, value]) => typeof value === "number"));
      const drawn = { heading: told.heading, series: there, range: range(), log: log(), width, tips };
      return there.length ? curves(drawn) : null;
    });

  const allScores = () => [...new Set(followed.flatMap((run) => run.validations.flatMap((entry) => Object.keys(entry.scores))))];
  const known = () => allScores().filter((name) => name !== "loss");
  const score = () => [studio.state.score, followed[0]?.run?.metric].find((name) => known().includes(name)) ?? known()[0];
  const picker = make("span");

  const loss = lines({ heading: "Loss", about: "On training data and on validation data." }, () => [
    ...ofEach("training", "ink", (run) => logged(run, "loss")),
    ...ofEach("validation", "rust", (run) => scored(run, "loss"), true),
  ]);
  const good = lines(
    { heading: "Score", about: "The score on validation data.", extra: picker },
    () => (score() ? ofEach(titled(score()), "rust", (run) => scored(run, score()), true) : []),
  );
  const rate = lines({ heading: "Learning rate", about: "The learning rate at each step." }, () =>
    ofEach("learning rate", "ink", (run) => logged(run, "learning_rate")),
  );
  const norm = lines({ heading: "Gradient norm", about: "The norm of the whole gradient, before clipping." }, () =>
    ofEach("norm", "ink", (run) => logged(run, "norm")),
  );
  const layers = liveFigure(
    {
      heading: "Gradient norm of each layer",
      about: "The gradient norm of each layer, on a logarithmic scale: the stronger the colour, the larger.",
    },
    (width, tips) => {
      const logs = (followed[0]?.logs ?? []).filter((entry) => entry.layers && Object.keys(entry.layers).length);
      return logs.length ? heatmap({ heading: "Gradient norm of each layer", logs, width, tips }) : null;
    },
  );
  layers.element.classList.add("whole");
  const drawings = [loss, good, rate, norm, layers];
  fill(figures, [loss, good, rate, norm, written, layers].map((one) => one.element));

  function drawPicker() {
    const key = JSON.stringify([known(), score()]);
    good.rename(known().length === 1 ? titled(known()[0]) : "Score");
    if (picker.dataset.key === key) return;
    picker.dataset.key = key;
    const options = known().map((name) => [name, titled(name)]);
    const choice = select("", options, score(), (name) => studio.change({ score: name }));
    choice.querySelector("select").setAttribute("aria-label", "Which score");
    refill(picker, options.length > 1 ? choice : null);
  }

  // ------------------------------------------------------------------------------------------------ which run

  async function list() {
    clearTimeout(timer);
    if (document.hidden) return;
    asking.abort();
    const mine = (asking = new AbortController());
    try {
      const found = await studio.get("runs", mine.signal);
      if (mine.signal.aborted) return;
      runs = found.runs;
      folder = found.folder;
      older = found.older ?? 0;
      update();
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!runs) fill(message, trouble(error, list));
    }
    timer = setTimeout(list, LISTED);
  }

  /** The names of the runs to show: the chosen one or the newest, and possibly another. */
  function wanted() {
    const names = runs.map((run) => run.name);
    const { run, against } = studio.state;
    const first = names.includes(run) ? run : names[0];
    return [first, names.includes(against) && against !== first ? against : null].filter(Boolean);
  }

  function update() {
    if (!runs) return;
    const names = wanted();
    drawChoices(names);
    const before = new Map(followed.map((run) => [run.name, run]));
    for (const [name, run] of before) if (!names.includes(name)) run.stop();
    followed = names.map((name) => before.get(name) ?? follow(studio, name, heard));
    draw();
  }

  function drawChoices(names) {
    const chosen = JSON.stringify([names, log()]);
    const key = chosen + JSON.stringify([older, ...runs.map((run) => [run.name, run.state])]);
    if (key === listed || (listed.startsWith(chosen) && choices.querySelector("select:focus"))) return; // a menu may be open
    listed = key;
    const option = (run) => [run.name, `${run.name}${run.state === "running" ? " ● running" : ""}`];
    const others = [["", "none"], ...runs.filter((run) => run.name !== names[0]).map(option)];
    const rescale = () => studio.change({ scale: scale.checked ? "log" : null });
    const scale = make("input", { type: "checkbox", checked: log(), onchange: rescale });
    refill(
      choices,
      runs.length ? select("Run", runs.map(option), names[0], (name) => studio.change({ run: name })) : null,
      others.length > 1 ? select("Compare with", others, names[1] ?? "", (name) => studio.change({ against: name || null })) : null,
      runs.length ? make("label", { class: "choice" }, scale, " Logarithmic scale") : null,
      older ? make("p", { class: "note" }, `The newest ${runs.length} runs are listed; ${older} older ones are not.`) : null,
    );
  }

  function heard(run, ended) {
    if (ended && followed[0] === run) studio.say(`The run ${run.name} has ended: ${run.run.state}.`);
    if (followed.includes(run)) draw();
  }

  // ------------------------------------------------------------------------------------------------------ all of it

  function draw() {
    const [first] = followed;
    const told = first?.run;
    const empty = told && !first.logs.length && !first.validations.length;
    const silent = followed.find((run) => run.trouble)?.trouble;
    const instead = !runs.length ? none(folder) : !empty ? "" : told.state === "finished" ? QUIET : SILENT;
    fill(message, silent ? trouble(silent) : null, instead ? make("p", { class: "none" }, instead) : null);
    content.hidden = !told || empty;
    place.dataset.state = told?.state ?? "";
    place.dataset.step = told?.step ?? "";
    if (content.hidden) return;
    drawFacts(first);
    drawPicker();
    for (const one of drawings) one.redraw();
    written.draw(first.name, first.validations);
    drawTable();
  }

  function drawFacts({ run, logs }) {
    const of = run.steps ? ` of ${whole(run.steps)}` : "";
    const lasted = logs.length > 1 ? `, ${duration(logs.at(-1).time - logs[0].time)}` : "";
    const languages = run.source && run.target ? ` ${run.source} → ${run.target}` : "";
    const began = run.started ? `started ${new Date(1000 * run.started).toLocaleString()}` : "";
    const more = [run.task ? `${run.task}${languages}` : "", began].filter(Boolean);
    fill(
      facts,
      make("strong", { class: run.state }, run.state),
      ` at step ${whole(run.step)}${of}${lasted}`,
      make("span", { class: "faint" }, more.map((words) => ` · ${words}`)),
    );
    progress.hidden = !run.steps;
    progress.max = run.steps || 1;
    progress.value = Math.min(run.step, run.steps || 1);
  }

  function drawTable() {
    const rows = new Map(); // name -> a value for each run
    followed.forEach((run, at) => {
      const put = (name, value) => rows.set(name, Object.assign(rows.get(name) ?? [], { [at]: value }));
      const entry = run.logs.at(-1);
      if (entry) put("step", whole(entry.step));
      if (entry) put("training loss", number(entry.loss, 6));
      for (const name of allScores()) {
        const found = run.validations.findLast((one) => typeof one.scores[name] === "number");
        const value = found && `${number(rounded(found.scores[name]), 6)} (step ${whole(found.step)})`;
        if (value) put(name === "loss" ? "validation loss" : titled(name), value);
      }
      if (!entry) return;
      put("learning rate", number(entry.learning_rate, 6));
      put("gradient norm", number(entry.norm, 6));
      put("epoch", number(entry.epoch));
      put("tokens or examples per second", number(entry.units_per_second, 4));
    });
    const heads = followed.map((run) => make("th", { scope: "col" }, run.name));
    const cells = (values) => followed.map((_, at) => make("td", {}, values[at] ?? "–"));
    fill(
      table,
      followed.length > 1 ? make("thead", {}, make("tr", {}, make("td"), heads)) : null,
      make("tbody", {}, [...rows].map(([name, values]) => make("tr", {}, make("th", { scope: "row" }, name), cells(values)))),
    );
  }

  const seen = () => !document.hidden && list();
  document.addEventListener("visibilitychange", seen);
  list();
  return {
    update,
    leave() {
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(timer);
      asking.abort();
      for (const run of followed) run.stop();
      for (const one of drawings) one.leave();
    },
  };
}

/** Replaces all children and restores the focus. */
function refill(place, ...controls) {
  const all = () => [...place.querySelectorAll("select, input")];
  const held = all().indexOf(document.activeElement);
  fill(place, controls);
  all()[held]?.focus();
}

function duration(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
