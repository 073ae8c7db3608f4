// SVG elements, colours and number formats for the figures that the page draws itself. The colours are those of
// regard/inspection/draw/style.py.

const LIGHT = { paper: "#ffffff", text: "#29263b", faint: "#6c6880", tile: "#f3f1fa", ink: "#43209e", rust: "#c8553d" };
const DARK = { paper: "#17151f", text: "#ebe8f5", faint: "#9d98b5", tile: "#24212f", ink: "#c5b3ff", rust: "#ff9f85" };
const FAMILY = "system-ui, -apple-system, Segoe UI, Noto Sans, DejaVu Sans, sans-serif";
const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const NO_XML = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu;
const FONT = 13;

/** Text escaped for SVG. */
export const safe = (words) => String(words).replace(NO_XML, "\ufffd").replace(/[&<>"]/g, (sign) => SIGNS[sign]);

/** The approximate width of a text. */
export const wide = (words) => [...String(words)].length * FONT * 0.58;

/** A number with so many significant digits, as short as possible. */
export function number(value, digits = 3) {
  if (typeof value !== "number") return "–";
  const size = Math.abs(value);
  const powers = value && (size < 1e-3 || size >= 1e6);
  const said = powers
    ? value.toExponential(digits - 1).replace(/\.?0*e\+?/, "e")
    : Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });
  return said.replaceAll("-", "−");
}

const coloured = (name) => `fill="${LIGHT[name]}" color="${LIGHT[name]}"`;

/** A self-contained SVG: groups of elements, each named after its colour, on the background. */
export function picture({ kind, width, height, groups, title }) {
  const used = Object.entries(groups).filter(([, marks]) => marks.length);
  const names = ["paper", ...used.map(([name]) => name)];
  const dark = names.map((name) => `.${kind} .${name}{fill:${DARK[name]};color:${DARK[name]}}`).join("");
  const size = `width="${width}" height="${height}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="${kind}" ${size} viewBox="0 0 ${width} ${height}" role="img"`,
    ` aria-label="${safe(title)}" font-size="${FONT}" font-family="${FAMILY}">`,
    `<style>@media (prefers-color-scheme:dark){${dark}}</style>`,
    `<rect class="paper" fill="${LIGHT.paper}" ${size}/>`,
    ...used.map(([name, marks]) => `<g class="${name}" ${coloured(name)}>\n${marks.join("\n")}\n</g>`),
    "</svg>\n",
  ].join("\n");
}

// Marks, with coordinates rounded to a tenth of a pixel.
const at = (place) => place.toFixed(1);

export const line = (x, y, toX, toY) =>
  `<line x1="${at(x)}" y1="${at(y)}" x2="${at(toX)}" y2="${at(toY)}" stroke="currentColor"/>`;

export const text = (words, x, y, anchor = "start") =>
  `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}">${safe(words)}</text>`;

/** `strength`: the opacity, from 0 to 1. */
export const box = (x, y, wide, high, strength = 1, tooltip = "") =>
  `<rect x="${at(x)}" y="${at(y)}" width="${at(wide)}" height="${at(high)}" fill-opacity="${strength.toFixed(3)}">` +
  `${titled(tooltip)}</rect>`;

export const dot = (x, y, size, strength = 1, tooltip = "") =>
  `<circle cx="${at(x)}" cy="${at(y)}" r="${size}" fill-opacity="${strength}">${titled(tooltip)}</circle>`;

export const path = (drawn, dashed) => {
  const dashes = dashed ? ' stroke-dasharray="2 4"' : "";
  const round = 'stroke-linejoin="round" stroke-linecap="round"';
  return `<path d="${drawn}" fill="none" stroke="currentColor" stroke-width="1.8" ${round}${dashes}/>`;
};

const titled = (tooltip) => (tooltip ? `<title>${safe(tooltip)}</title>` : "");
