// Save a picture: as the original SVG, as PNG in the light colours, or as one HTML page.
import { make } from "./dom.js";

const FINE = 2; // pixels of a PNG per pixel of the drawing
const MOST_DOTS = 8192; // the largest canvas that browsers draw

export function download(content, type, name) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The root element of an SVG, without its own dark-mode style; throws where the text is not an SVG. */
export function parsed(svg) {
  const plain = svg.replace(/<style>[^<]*<\/style>/g, ""); // the page's content security policy allows no inline style
  const root = new DOMParser().parseFromString(plain, "image/svg+xml").documentElement;
  if (root.localName !== "svg") throw new Error("this is not a drawing");
  return root;
}

export function saveSvg(svg, name) {
  download(svg, "image/svg+xml", `${name}.svg`);
}

export async function savePng(svg, name) {
  const root = parsed(svg);
  const [wide, high] = ["width", "height"].map((side) => Number(root.getAttribute(side)));
  const scale = Math.min(FINE, MOST_DOTS / wide, MOST_DOTS / high);
  const drawn = new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" });
  const address = URL.createObjectURL(drawn);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = make("canvas", { width: Math.round(wide * scale), height: Math.round(high * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    download(await new Promise((done) => canvas.toBlob(done, "image/png")), "image/png", `${name}.png`);
  } finally {
    URL.revokeObjectURL(address);
  }
}

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE = `:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; }
.drawing { overflow-x: auto; }`;
const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const safe = (words) => String(words).replace(/[&<>"']/g, (sign) => SIGNS[sign]);

/** A self-contained page without scripts; the values are in the picture's tooltips. */
export function saveHtml({ heading, about = "", svg }, name) {
  parsed(svg); // refuse anything that is not an SVG
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${safe(heading)}</title>
<style>
${STYLE}
</style>
</head>
<body>
<h1>${safe(heading)}</h1>
<p>${safe(about)}</p>
<div class="drawing">
${svg}</div>
</body>
</html>
`;
  download(page, "text/html", `${name}.html`);
}
