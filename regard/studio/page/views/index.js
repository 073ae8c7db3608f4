// The views in the order of their tabs. A view is the file views/NAME.js; missing files are skipped.
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
