// The user's own image: a file, or a drawing on a small canvas. It leaves the browser only in the question about it.
import { Trouble } from "./ask.js";
import { debounce, fill, make } from "./dom.js";

const MOST_BYTES = 600_000; // larger files are shrunk first
const SHORT = 512; // the short side of a shrunk image, in pixels
const LARGEST = 50_000_000; // bytes; larger files are refused
const COLOURS = { white: "#f5f5f5", yellow: "#f0dc32", red: "#e62828", green: "#28be3c", blue: "#3250f0" };

/** A file as base64, shrunk where it would not fit into a question. */
export async function encoded(file) {
  if (file.size > LARGEST) throw new Trouble("This file is too large; choose one below 50 MB.");
  if (file.size <= MOST_BYTES) return base64(file);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Trouble("This file is not an image that can be read; use PNG, JPEG, GIF, BMP or WebP.");
  }
  const scale = Math.min(1, SHORT / Math.min(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.min(4096, Math.round(side * scale))));
  const canvas = make("canvas", { width, height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return base64(await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92)));
}

/** A file in base64. */
export function base64(blob) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => fail(new Trouble("This file cannot be read."));
    reader.readAsDataURL(blob);
  });
}

/** A canvas at the model's own resolution; `ondrawn(base64)` is called while strokes are drawn. */
export function drawingPad(size, colour, ondrawn) {
  const canvas = make("canvas", { width: size, height: size, role: "img", "aria-label": "Draw here with the pointer; keyboard users can choose a sample" });
  const context = canvas.getContext("2d");
  let ink = COLOURS.white;
  let last = null;
  const tell = debounce(() => ondrawn(canvas.toDataURL("image/png").split(",")[1]), 120);
  const clear = () => {
    context.fillStyle = colour ? "#373737" : "#000000";
    context.fillRect(0, 0, size, size);
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * size, ((event.clientY - box.top) / box.height) * size];
  };
  const draw = (event) => {
    if (!last) return;
    const [x, y] = at(event);
    context.strokeStyle = ink;
    context.lineWidth = size / 12;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...last);
    context.lineTo(x, y);
    context.stroke();
    last = [x, y];
    tell();
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    draw(event);
  });
  canvas.addEventListener("pointermove", draw);
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
  clear();

  const inks = Object.entries(COLOURS).map(([name, value]) => {
    const choice = make("input", { type: "radio", name: "ink", checked: value === ink, onchange: () => (ink = value) });
    const dot = make("span", { class: "dot" });
    dot.style.background = value;
    return make("label", { title: name }, choice, dot, make("span", { class: "unseen" }, name));
  });
  const element = make("div", { class: "pad" });
  fill(
    element,
    canvas,
    make(
      "div",
      { class: "tools" },
      colour ? make("fieldset", {}, make("legend", { class: "unseen" }, "Colour"), inks) : null,
      make("button", { type: "button", onclick: () => (clear(), tell()) }, "Clear"),
    ),
  );
  return { element, stop: () => tell.cancel() };
}
