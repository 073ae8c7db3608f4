// Asks for the API key, where the server wants one. Until it has one, the page shows nothing else.
import { fill, make } from "./dom.js";
import { get, useKey } from "./server.js";

/** Shows the form in `place`; `opened()` is called once the server has taken a key. */
export function keyForm(place, opened, why = "") {
  const input = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const said = make("p", { class: "wrong", role: "alert" }, why);
  const form = make(
    "form",
    { class: "key" },
    make("p", {}, "This server translates for those who have an API key."),
    make("label", { for: "key" }, "API key (kept until this tab is closed)"),
    input,
    make("div", { class: "controls" }, make("button", { class: "main" }, "Continue")),
    said,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    useKey(input.value.trim());
    try {
      await get("api/models");
    } catch (error) {
      useKey("");
      said.textContent = error.message;
      input.select();
      return;
    }
    opened();
  });
  fill(place, form);
  input.focus();
}
