"use strict";
// The script of an exported page: shows the value under the pointer, switches to another head, isolates the lines of one
// token, and saves values and pictures. It only changes the pictures that are there, by the values in `trace`.

const trace = JSON.parse(document.getElementById("seen").textContent);
const value = document.getElementById("said");
const all = (what, within = document) => [...within.querySelectorAll(what)];

function show(figure) {
  const [layer, head] = all("select", figure).map((one) => Number(one.value));
  const weights = trace.attention.filter((one) => one.kind === figure.dataset.kind)[layer].weights[head];
  for (const line of all("line[data-at]", figure)) {
    const [query, key] = line.dataset.at.split(" ").map(Number);
    const weight = weights[query][key];
    const title = line.querySelector("title");
    line.setAttribute("stroke-opacity", (weight ?? 0).toFixed(3));
    title.textContent = title.textContent.slice(0, title.textContent.lastIndexOf(": ") + 2) + weight;
  }
  if (figure.querySelector("[data-at=who]")) veil(figure, weights);
  const heading = figure.querySelector("svg .text text");
  heading.textContent = `${figure.querySelector("h2").textContent}, layer ${layer}, head ${head}`;
  figure.querySelector("svg").setAttribute("aria-label", heading.textContent);
}

// The overlay of an attention map: the smaller the weight of a place, the thicker (inspection/draw/patches.py). The first
// token may be the class token.
function veil(figure, weights) {
  const places = all('[data-at^="place"]', figure);
  const frame = figure.querySelector('[data-at^="looker"]');
  const first = Number(frame.dataset.at.split(" ")[1]);
  const query = Number(figure.dataset.query ?? first);
  const greatest = Math.max(...weights[query].slice(trace.scene.before, trace.scene.before + trace.scene.places.length));
  places.forEach((place, key) => {
    const title = place.querySelector("title");
    const weight = weights[query][key];
    const share = greatest > 0 ? Math.min(1, weight / greatest) : 0;
    place.setAttribute("fill-opacity", (0.88 * (1 - share)).toFixed(3));
    title.textContent = title.textContent.slice(0, title.textContent.lastIndexOf(": ") + 2) + weight;
  });
  const at = (place, side) => Number(place.getAttribute(side));
  const [from, to] = [places[first], places[query]];
  const scale = at(to, "width") / at(from, "width");
  const shift = ["x", "y"].map((side) => at(to, side) - scale * at(from, side));
  frame.setAttribute("transform", `translate(${shift}) scale(${scale})`);
  const name = (place) => place.querySelector("title").textContent.split(": ")[0];
  figure.querySelector("[data-at=who]").textContent = `query: ${name(to)}`;
}

function pick(kind, head) {
  const figure = all("figure[data-kind]").find((one) => one.dataset.kind === kind);
  const selects = figure ? all("select", figure) : [];
  if (!figure || !selects.every((select, at) => [...select.options].some((one) => one.value === head[at]))) return;
  selects.forEach((select, at) => (select.value = head[at]));
  show(figure);
  figure.scrollIntoView();
}

function isolate(label) {
  const [side, number] = label.dataset.at.split(" ");
  const place = side === "query" ? 0 : 1;
  const drawing = label.closest("svg");
  drawing.classList.add("looking");
  for (const line of all("line[data-at]", drawing)) {
    line.classList.toggle("looked", line.dataset.at.split(" ")[place] === number);
  }
}

function save(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

for (const figure of all("figure[data-kind]")) {
  for (const select of all("select", figure)) select.addEventListener("change", () => show(figure));
  for (const label of all('[data-at^="key"], [data-at^="query"]', figure)) {
    label.setAttribute("tabindex", "0");
    const leave = () => label.closest("svg").classList.remove("looking");
    for (const event of ["pointerenter", "focus"]) label.addEventListener(event, () => isolate(label));
    for (const event of ["pointerleave", "blur"]) label.addEventListener(event, leave);
  }
}

for (const small of all('[data-at^="pick"]')) {
  small.setAttribute("tabindex", "0");
  const [, kind, ...head] = small.dataset.at.split(" ");
  small.addEventListener("click", () => pick(kind, head));
  small.addEventListener("keydown", (event) => event.key === "Enter" && pick(kind, head));
}

for (const small of all('[data-at^="of "]')) {
  const [, kind, ...head] = small.dataset.at.split(" ");
  small.addEventListener("click", () => pick(kind, head));
}
for (const place of all('figure[data-kind] [data-at^="place"]')) {
  place.setAttribute("tabindex", "0");
  const select = () => {
    const figure = place.closest("figure");
    figure.dataset.query = place.dataset.at.split(" ")[1];
    show(figure);
  };
  place.addEventListener("click", select);
  place.addEventListener("keydown", (event) => event.key === "Enter" && select());
}

// A link can name a head: page.html#cross-1-3 is layer 1, head 3.
const [kind, ...head] = location.hash.slice(1).split("-");
if (kind) pick(kind, head);

document.addEventListener("pointerover", (event) => {
  const title = [...event.target.children].find((one) => one.tagName === "title");
  value.textContent = title?.textContent ?? "";
});

for (const button of all("button.save")) {
  button.addEventListener("click", () => {
    const drawing = new XMLSerializer().serializeToString(button.closest("figure").querySelector("svg"));
    save(drawing, "image/svg+xml", "regard.svg");
  });
}
document.getElementById("values").addEventListener("click", () => {
  save(document.getElementById("seen").textContent, "application/json", "regard.json");
});
