// Sentences worth looking at, by the language they are in, each with what it shows.

export const examples = {
  fr: [
    ["J'ai acheté une petite voiture rouge.", "adjectives change sides"],
    ["Je ne sais pas où il est allé.", "two words say no"],
    ["Tu me manques.", "who misses whom turns round"],
    ["Il pleut des cordes.", "an idiom, not word for word"],
    ["Il est en train de manger une pomme verte.", "five words become two"],
    [
      "Quand le dernier train est parti, nous avons compris qu'il faudrait attendre le matin pour rentrer chez nous.",
      "a long one, with a clause inside",
    ],
  ],
  en: [
    ["I bought a small red car.", "adjectives change sides"],
    ["I don't know where he went.", "one word says no, or two"],
    ["I miss you.", "who misses whom turns round"],
    ["It's raining cats and dogs.", "an idiom, not word for word"],
    ["He is eating a green apple.", "two words become one"],
    [
      "When the last train had left, we understood that we would have to wait until the morning to get home.",
      "a long one, with a clause inside",
    ],
  ],
};
