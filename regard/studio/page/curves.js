// Line charts over training steps, as an SVG string, with a function that finds the value under the pointer.
import { dot, line, number, path, picture, text, wide } from "./svg.js";

const HIGH = 200; // of the plot alone
const ROW = 20; // of the legend
const MOST_TIPS = 300; // tooltips of a curve that is saved

/**
 * `series`: [{name, colour, dashed, dots, points: [[step, value], ...]}] in the order of steps; values that are not
 * numbers are gaps. `range`: the first and the last step. Returns {svg, columns, find(x, y) -> [column, row],
 * spot(column, row) -> {words, line, dots} or null}.
 */
export function curves({ heading, series, range, log = false, width, tips = false }) {
  const drawn = series.map((one) => ({
    ...one,
    points: one.points.filter(([, value]) => shows(value, log)),
    gaps: one.points.filter(([, value]) => !shows(value, log)).map(([step]) => step),
  }));
  const all = drawn.flatMap((one) => one.points);
  const steps = [...new Set(all.map(([step]) => step))].sort((a, b) => a - b);
  const [low, high, ticks] = log ? decades(all) : rounds(all);
  const place = (value) => (log ? Math.log10(value) : value);
  const legend = drawn.length > 1 ? legendRows(drawn, width) : []; // a single curve is named by the heading
  const left = 10 + Math.max(...ticks.map((tick) => wide(number(tick))), 20);
  const right = width - 14;
  const top = 12 + legend.length * ROW;
  const bottom = top + HIGH;
  const first = range[0];
  const last = Math.max(range[1], first + 1);
  const x = (step) => left + ((step - first) / (last - first)) * (right - left);
  const y = (value) => bottom - ((place(value) - place(low)) / (place(high) - place(low))) * HIGH;

  const groups = { tile: [], ink: [], rust: [], faint: [], text: [] };
  for (const tick of ticks) {
    groups.tile.push(line(left, y(tick), right, y(tick)));
    groups.faint.push(text(number(tick), left - 6, y(tick) + 4, "end"));
  }
  for (const step of stepTicks(first, last, right - left)) {
    const words = step.toLocaleString("en");
    const outside = x(step) + wide(words) / 2 > width;
    groups.faint.push(text(words, outside ? width - 2 : x(step), bottom + 18, outside ? "end" : "middle"));
  }
  for (const one of drawn) {
    const thin = thinned(one.points, Math.max(200, width));
    const seen = (one.dots && thin.length < 60) || thin.length === 1;
    groups[one.colour].push(path(pathOf(thin, one.gaps, x, y), one.dashed));
    const every = Math.ceil(one.points.length / MOST_TIPS);
    for (const [step, value] of tips ? one.points.filter((_, at) => at % every === 0) : seen ? thin : []) {
      const tooltip = tips ? `${one.name}, step ${step.toLocaleString("en")}: ${number(value, 6)}` : "";
      groups[one.colour].push(dot(x(step), y(value), 3, seen ? 1 : 0, tooltip));
    }
  }
  legend.forEach((row, level) => {
    for (const { one, at } of row) {
      groups[one.colour].push(path(`M${left + at} ${8 + level * ROW}h18`, one.dashed));
      groups.text.push(text(one.name, left + at + 24, 12 + level * ROW));
    }
  });

  const values = drawn.map((one) => new Map(one.points));
  const spot = (column, row) => {
    const step = steps[column];
    if (step === undefined || row) return null;
    const there = drawn.flatMap((one, at) => (values[at].has(step) ? [[one, values[at].get(step)]] : []));
    const words = there.map(([one, value]) => `${one.name} ${number(value, 6)}`).join(", ");
    return {
      words: `step ${step.toLocaleString("en")}: ${words}`,
      line: [x(step), top, bottom],
      dots: there.map(([one, value]) => ({ x: x(step), y: y(value), colour: one.colour })),
    };
  };
  return {
    svg: picture({ kind: "regard-curves", width, height: bottom + 28, groups, title: heading }),
    find: (at) => [nearest(steps, first + ((at - left) / (right - left)) * (last - first)), 0],
    spot,
    columns: steps.length,
  };
}

const shows = (value, log) => typeof value === "number" && (!log || value > 0);

/** The path through the points, with gaps where a value is missing. */
function pathOf(points, gaps, x, y) {
  let path = "";
  let gap = 0;
  let before = -Infinity;
  for (const [step, value] of points) {
    while (gap < gaps.length && gaps[gap] <= before) gap++;
    const apart = before === -Infinity || (gap < gaps.length && gaps[gap] < step);
    path += `${apart ? "M" : "L"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    before = step;
  }
  return path;
}

/** At most `most` points: the minimum and maximum of each interval, so that no peak is lost. */
export function thinned(points, most) {
  if (points.length <= most) return points;
  const piece = Math.ceil((2 * points.length) / most);
  const kept = [points[0]];
  for (let at = 1; at < points.length - 1; at += piece) {
    const part = points.slice(at, Math.min(at + piece, points.length - 1));
    const sorted = [...part].sort((a, b) => a[1] - b[1]);
    kept.push(...[...new Set([sorted[0], sorted.at(-1)])].sort((a, b) => a[0] - b[0]));
  }
  return [...kept, points.at(-1)];
}

function rounds(points) {
  let [low, high] = ends(points);
  if (low === high) [low, high] = low ? [Math.min(0, low * 2), Math.max(0, low * 2)] : [0, 1];
  const step = roundStep((high - low) / 4);
  const begin = Math.floor(low / step);
  const end = Math.ceil(high / step - 1e-9);
  const ticks = Array.from({ length: end - begin + 1 }, (_, at) => Number(((begin + at) * step).toPrecision(12)));
  return [ticks[0], ticks.at(-1), ticks];
}

/** A log scale from just below the minimum to just above the maximum. */
function decades(points) {
  let [low, high] = points.length ? ends(points) : [1, 10];
  const more = high > low ? (high / low) ** 0.04 : 1.5;
  [low, high] = [low / more, high * more];
  const inside = (tick) => tick >= low && tick <= high;
  const [least, most] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const tens = Array.from({ length: most - least + 1 }, (_, at) => Number(`1e${least + at}`));
  const every = Math.ceil(tens.length / 6);
  const coarse = tens.filter((_, at) => at % every === 0);
  const fine = tens.flatMap((ten) => [1, 2, 5].map((part) => Number((part * ten).toPrecision(1))));
  const choices = [coarse, fine, rounds(points)[2]].map((some) => some.filter(inside));
  return [low, high, choices.find((some) => some.length > 2) ?? choices.at(-1)];
}

function ends(points) {
  let [low, high] = [Infinity, -Infinity];
  for (const [, value] of points) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return points.length ? [low, high] : [0, 1];
}

/** The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `least`. */
function roundStep(least) {
  const ten = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 2.5, 5, 10].map((part) => part * ten).find((step) => step >= least * 0.999);
}

function stepTicks(first, last, room) {
  const step = Math.max(1, Math.ceil(roundStep((last - first) / Math.max(3, Math.floor(room / 90)))));
  const begin = Math.ceil(first / step);
  return Array.from({ length: Math.floor(last / step) - begin + 1 }, (_, at) => (begin + at) * step);
}

function nearest(steps, wanted) {
  let [low, high] = [0, steps.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] < wanted) low = middle;
    else high = middle;
  }
  return Math.abs(steps[low] - wanted) <= Math.abs(steps[high] - wanted) ? low : high;
}

/** The legend's names, in as many rows as they need. */
function legendRows(series, width) {
  const rows = [];
  let at = Infinity;
  for (const one of series) {
    const room = wide(one.name) + 44;
    if (at + room > width - 60) {
      rows.push([]);
      at = 0;
    }
    rows.at(-1).push({ one, at });
    at += room;
  }
  return rows;
}
