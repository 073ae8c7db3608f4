// Example sentences by language, each with what it illustrates.

export const examples = {
  fr: [
    ["J'ai acheté une petite voiture rouge.", "adjective order"],
    ["Je ne sais pas où il est allé.", "negation: ne … pas"],
    ["Tu me manques.", "subject and object swap"],
    ["Il pleut des cordes.", "an idiom, not word for word"],
    ["Il est en train de manger une pomme verte.", "five words become two"],
    [
      "Quand le dernier train est parti, nous avons compris qu'il faudrait attendre le matin pour rentrer chez nous.",
      "a long sentence with a subordinate clause",
    ],
  ],
  en: [
    ["I bought a small red car.", "adjective order"],
    ["I don't know where he went.", "negation"],
    ["I miss you.", "subject and object swap"],
    ["It's raining cats and dogs.", "an idiom, not word for word"],
    ["He is eating a green apple.", "two words become one"],
    [
      "When the last train had left, we understood that we would have to wait until the morning to get home.",
      "a long sentence with a subordinate clause",
    ],
  ],
};
