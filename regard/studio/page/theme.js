// Colours: light, dark, or the system's setting; the choice is remembered. Also used by the server's page.
const THEMES = ["auto", "light", "dark"];
const LABELS = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" };

/** A button that goes from one to the next. */
export function themeButton(button) {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // storage is not available
  }
  const show = (theme) => {
    chosen = THEMES.includes(theme) ? theme : "auto";
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = LABELS[chosen];
    button.title = "Colours: light, dark, or the system setting";
  };
  button.addEventListener("click", () => {
    show(THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]);
    try {
      localStorage.setItem("theme", chosen);
    } catch {
      // storage is not available
    }
  });
  show(chosen);
}
