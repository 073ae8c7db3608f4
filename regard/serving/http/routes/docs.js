// The "Try it" box of the documentation page: sends the request to this server and shows its answer, word for word.
const part = (name) => document.getElementById(name);
const [text, source, target, send, key, request, answer, status] = "try-text try-source try-target try-send try-key try-request try-answer try-status".split(" ").map(part);

const body = () => ({ q: text.value, source: source.value, target: target.value });

/** The request as a command, quoted for a shell. */
function show() {
  const quoted = `'${JSON.stringify(body()).replaceAll("'", "'\\''")}'`;
  const secret = key.value ? " \\\n  -H 'Authorization: Bearer KEY'" : "";
  request.textContent = `curl ${new URL("translate", location.href)} \\\n  -H 'Content-Type: application/json'${secret} \\\n  -d ${quoted}`;
}

function options(select, languages, chosen) {
  select.replaceChildren(...languages.map(({ code, name }) => new Option(`${name} (${code})`, code, false, code === chosen)));
}

async function begin() {
  const [languages, settings] = await Promise.all(["languages", "frontend/settings"].map(async (path) => (await fetch(path)).json()));
  const targets = () => {
    const all = languages.find((one) => one.code === source.value)?.targets ?? languages.map((one) => one.code);
    options(target, languages.filter((one) => all.includes(one.code) && one.code !== source.value), target.value || target.dataset.first);
  };
  options(source, [{ code: "auto", name: "Detect" }, ...languages], source.dataset.first);
  targets();
  source.addEventListener("change", targets);
  key.closest("label").hidden = !settings.keyRequired;
  for (const one of [text, source, target, key]) one.addEventListener("input", show);
  show();
  send.disabled = false;
}

async function ask() {
  send.disabled = true;
  status.textContent = "…";
  const began = performance.now();
  try {
    const headers = { "Content-Type": "application/json", ...(key.value ? { Authorization: `Bearer ${key.value}` } : {}) };
    const response = await fetch("translate", { method: "POST", headers, body: JSON.stringify(body()) });
    const found = await response.text();
    status.textContent = `${response.status} ${response.statusText}, ${Math.round(performance.now() - began)} ms`;
    try {
      answer.textContent = JSON.stringify(JSON.parse(found), null, 2);
    } catch {
      answer.textContent = found;
    }
  } catch {
    status.textContent = "The server does not answer.";
    answer.textContent = "";
  }
  send.disabled = false;
}

send.addEventListener("click", ask);
text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && !send.disabled && ask());
begin().catch(() => (status.textContent = "The server does not answer."));
