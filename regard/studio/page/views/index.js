// The views, in the order of their tabs. A view is views/NAME.js; one whose file is not there is left out.
export const views = [
  "translate",
  "steps",
  "heads",
  "numbers",
  "beam",
  "positions",
  "gates",
  "gradients",
  "ponder",
  "language",
  "vision",
  "training",
];
