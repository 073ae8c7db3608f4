// A heatmap of gradient norms by layer and training step, on a log scale.
import { box, number, picture, text, wide } from "./svg.js";

const ROW = 18;
const COLUMN = 5; // minimum width
const RANGE = 1e6; // the range of the colour scale below the maximum

/** `logs`: [{step, layers: {name: norm}}] in order, at least one. Returns the same as curves(). */
export function heatmap({ heading, logs, width, tips = false }) {
  const layers = [...new Set(logs.flatMap((log) => Object.keys(log.layers)))];
  const left = Math.min(Math.max(...layers.map((layer) => wide(short(layer))), 20) + 12, width * 0.4);
  const room = width - left - 14;
  const columns = sampled(logs, Math.max(1, Math.floor(room / COLUMN)));
  const step = room / Math.max(columns.length, 12);
  const values = columns.flatMap((log) => Object.values(log.layers)).filter((value) => value > 0);
  const high = values.length ? Math.max(...values) : 1;
  const low = Math.max(values.length ? Math.min(...values) : 1, high / RANGE);
  const strength = (value) => (high > low ? Math.max(0, Math.log(value / low) / Math.log(high / low)) : 1);
  const top = 6;
  const bottom = top + layers.length * ROW;

  const groups = { tile: [], ink: [], faint: [], text: [] };
  layers.forEach((layer, row) => {
    const y = top + row * ROW;
    groups.tile.push(box(left, y, columns.length * step, ROW - 2));
    groups.text.push(text(fitting(short(layer), left - 10), left - 8, y + 13, "end"));
    columns.forEach((log, column) => {
      const value = log.layers[layer];
      if (!(value > 0)) return;
      const tooltip = tips ? said(log, layer) : "";
      groups.ink.push(box(left + column * step, y, step + 0.3, ROW - 2, ink(strength(value)), tooltip));
    });
  });
  const begin = columns[0].step.toLocaleString("en");
  groups.faint.push(text(`step ${begin}`, left, bottom + 16));
  if (columns.length > 1) {
    const end = columns.at(-1).step.toLocaleString("en");
    groups.faint.push(text(end, left + columns.length * step, bottom + 16, "end"));
  }
  const scale = left + wide(number(low, 2)) + 8;
  groups.faint.push(text(number(low, 2), left, bottom + 38), text(number(high, 2), scale + 108, bottom + 38));
  for (let at = 0; at < 20; at++) groups.ink.push(box(scale + at * 5, bottom + 28, 5.3, 10, ink(at / 19)));
  return {
    svg: picture({ kind: "regard-heat", width, height: bottom + 46, groups, title: heading }),
    find: (x, y) => [between((x - left) / step, columns.length), between((y - top) / ROW, layers.length)],
    spot: (column, row) =>
      columns[column] && layers[row]
        ? { words: said(columns[column], layers[row]), box: [left + column * step, top + row * ROW, step, ROW - 2] }
        : null,
    columns: columns.length,
  };
}

const ink = (strength) => 0.05 + 0.95 * strength;
const between = (wanted, count) => Math.max(0, Math.min(count - 1, Math.floor(wanted)));
const said = (log, layer) => `step ${log.step.toLocaleString("en")}, ${layer}: ${number(log.layers[layer], 6)}`;

/** `encoder.layers.3` -> `encoder 3` */
const short = (layer) => layer.replace(/\.(?:layers|recurrence\.cells)\./, " ").replaceAll(".", " ");

function fitting(words, room) {
  const all = [...words];
  const most = Math.max(3, Math.floor((room / wide(words)) * all.length));
  return all.length > most ? `…${all.slice(1 - most).join("")}` : words;
}

/** A sample of the logs, even over the steps: the last of each interval. */
function sampled(logs, most) {
  const first = logs[0].step;
  const piece = (logs.at(-1).step - first + 1) / Math.min(most, logs.length);
  const place = (log) => Math.floor((log.step - first) / piece);
  return logs.filter((log, at) => at + 1 === logs.length || place(logs[at + 1]) !== place(log));
}
