// Documents: chosen or dropped on the page, sent to /translate_file, and a link to what comes back.
import { fill, make } from "./dom.js";
import { authorization, refused } from "./server.js";
import { Trouble } from "./ask.js";

/** `languages()` says which ones; `fail(error)` shows an error. */
export function filesPanel(formats, languages, fail) {
  const list = make("ul", { class: "documents", "aria-live": "polite" });
  const input = make("input", { type: "file", id: "file", accept: formats.join(","), multiple: true, class: "unseen" });
  const zone = make(
    "div",
    { class: "drop" },
    make("label", { for: "file" }, "Choose documents"),
    input,
    make("span", { class: "faint" }, " or drop them on this page: ", formats.join(" ")),
  );
  input.addEventListener("change", () => {
    for (const file of input.files) send(file);
    input.value = "";
  });

  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    zone.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || zone.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    zone.classList.remove("over");
    if (!hasFiles(event)) return;
    event.preventDefault();
    for (const file of event.dataTransfer.files) send(file);
  });

  function send(file) {
    const bar = make("progress", { max: "1", "aria-label": file.name });
    const said = make("span", { class: "faint" }, "Sending …");
    const request = new XMLHttpRequest(); // fetch does not tell how much was sent
    const stop = make("button", { type: "button", class: "plain", onclick: () => (request.abort(), entry.remove()) }, "Cancel");
    const entry = make("li", {}, make("span", { dir: "auto" }, file.name), bar, said, stop);
    list.append(entry);
    const form = new FormData();
    const { source, target } = languages();
    form.append("source", source);
    form.append("target", target);
    form.append("file", file);
    const began = Date.now();
    let clock;
    request.upload.onprogress = (event) => event.lengthComputable && (bar.value = event.loaded / event.total);
    request.upload.onload = () => {
      bar.removeAttribute("value"); // how long it takes is not known
      const tell = () => (said.textContent = `Translating … ${Math.round((Date.now() - began) / 1000)} s`);
      tell();
      clock = setInterval(tell, 1000);
    };
    const end = (error) => {
      clearInterval(clock);
      bar.remove();
      fill(said, error.message);
      said.className = "wrong";
      stop.textContent = "Remove";
      fail(error);
    };
    request.onabort = () => clearInterval(clock);
    request.onerror = () => end(new Trouble("The server does not answer.", true));
    request.onload = () => {
      let found = null;
      try {
        found = JSON.parse(request.responseText);
      } catch {
        // an error of a proxy
      }
      if (request.status !== 200 || !found?.translatedFileUrl) {
        const headers = { get: (name) => request.getResponseHeader(name) };
        return end(refused({ status: request.status, statusText: request.statusText, headers }, found));
      }
      clearInterval(clock);
      // Only the path's end: behind a proxy the server may not know its own address.
      const place = `download_file/${found.translatedFileUrl.split("/download_file/").at(-1)}`;
      const name = decodeURIComponent(place.slice(place.indexOf(".") + 1));
      bar.remove();
      fill(said, make("a", { href: place, download: name }, `Download (${target})`));
      stop.textContent = "Remove";
    };
    request.open("POST", "translate_file");
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.send(form);
  }

  return make("section", { class: "files", "aria-label": "Documents" }, zone, list);
}
