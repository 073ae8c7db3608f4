// The views in groups, in the order of their tabs. To add one, write views/NAME.js and put its name into its group here
// (names without a file are skipped). A view exports
//   title, about   the name of its tab, and one sentence that says what it shows; terms of art in it get a tooltip
//   more           further sentences, folded away until somebody asks
//   code           the Python file and name of what computes it, or several (see heads.js)
//   suits(model)   whether it can show a model (studio/models.py, `describe`); without it, it needs no model
//   first(model)   the models that it offers first, if not all alike
//   lacks          what a model is missing that it cannot show, "has no recurrent layer", or a function of the model
//   without        what to say where no model suits, as children of a paragraph; without it, the tab is not there then
//   ofModel        the names of values of the state that mean nothing to another model: dropped when the model changes
//   terms          {"logit lens": "One sentence."}: tooltips beside those in terms.js; in a view of its own making, use
//                  `explained(text)` of tooltip.js, or an element with the attribute data-term
//   experiments    [{question, action, run(studio), suits(model)?}]: a question, the words on its button, and a function
//                  that does it with `studio.ask` and `studio.change` and returns the answer as text (experiment.js)
//   show(place, studio)   fills `place`; returns {update(), leave()}
export const groups = [
  { title: "", views: ["start"] },
  { title: "Translate", views: ["translate", "steps", "beam"] },
  { title: "Inside", views: ["heads", "numbers", "positions", "gradients", "ponder", "why", "what_if", "near"] },
  { title: "Recurrent", views: ["gates"] },
  { title: "Language", views: ["language", "lens", "fill"] },
  { title: "Vision", views: ["vision"] },
  { title: "Sound", views: ["speech"] },
  { title: "Training", views: ["training"] },
];
