"""Abbreviations of English, French, German, Spanish and Persian, after which a stop may not end a sentence.

One table for all languages: a text may mix them, and an abbreviation of one is hardly a word of another. What is a
word, too ("no.", "art."), counts before a number only. "etc." and "usw." are absent: before a capital they end one.
"""

from __future__ import annotations

BEFORE_A_NAME = {
    "en": "mr mrs ms messrs dr prof st rev hon gen col lt sgt capt cmdr adm gov sen rep pres fr viz vs e.g i.e cf sens "
    "reps det supt",
    "fr": "mm mme mmes mlle mlles mgr pr ste bd c.-à-d p.ex env",
    "de": "hr fr hrn dipl ing bzw evtl ggf inkl exkl sog vgl zzgl einschl insbes z.b d.h u.a u.u i.d.r o.ä s.o s.u z.t "
    "i.a u.s.w bspw allg abzgl geb gest nachf dt engl frz lat ehem",
    "es": "sr sra sres sras srta d.ª dña da ud uds vd vds dra excmo excma ilmo ilma gral lic ing arq mons p.ej admón "
    "avda",
    "fa": "ر.ک رک",
}
"""Followed by a name or the rest of a phrase: M. Dupont, z. B. Häuser."""

BEFORE_A_NUMBER = {
    "en": "no nos p pp vol vols ch fig figs sec art para op approx jan feb mar apr jun jul aug sep sept oct nov dec",
    "fr": "n nº t chap sect al par janv févr avr juil déc tél",
    "de": "nr nrn s abs abschn bd bde kap abb tab ziff rn az anm aufl buchst lit dez okt ca mind max min",
    "es": "núm núms pág págs cap apdo fig art arts tít vol ene abr ago dic tel",
    "fa": "ص صص ج ش",
}
"""Followed by a number: art. 5, Nr. 3, pp. 12-14."""

MAY_END = "mio mrd tsd jr inc ltd corp co bros dept univ"
"""These end a sentence only before a word that often begins one: 5 Mio. Euro, Acme Inc. of London."""

MONTHS_AND_CENTURIES = (
    "januar jänner februar märz april mai juni juli august september oktober november dezember "
    "jahrhundert jahrhunderts jahrtausend weltkrieg weltkriegs weltkrieges mal platz klasse quartal halbjahr "
    "kalenderwoche woche tag jahrestag geburtstag wahlperiode sitzung tagung generalversammlung etage stock lesung"
)
"""Nouns before which a German number with a stop is an ordinal: der 3. Oktober."""

BEFORE_AN_ORDINAL = (
    "der die das den dem des am im vom zum zur beim ein eine einer einem einen eines jeder jedes jede seit bis ab "
    "und oder ihr ihre ihren sein seine seinen seiner unser unsere unserer dieser diese dieses jedem"
)
"""Words before which a German number with a stop is an ordinal: beim 4. Treffen."""

SENTENCE_STARTERS = {
    "en": "the a an he she it they we you i this that these those there here in on at but and if when as his her its "
    "our their my what who why how for with after before however although while since so then yes no not let",
    "fr": "le la les l un une il elle ils elles on nous vous je j ce cet cette ces c cela ceci mais et si quand dans "
    "en au aux pour par avec après avant d de des du qui que qu quel quelle comment pourquoi sur sans selon notre "
    "votre son sa",
    "de": "der die das ein eine einen einem er sie es wir ich ihr dies diese dieser dieses im in am an auf aber und "
    "wenn als da so mit nach für wie was wer bei doch denn auch nun nur zu zum zur von vor weil während außerdem "
    "dann hier",
    "es": "el la los las lo un una unos él ella ellos ellas yo tú usted nosotros este esta estos estas eso esto en "
    "pero y si cuando para con por al del de a que qué quién cómo no sí se su sus como sin desde hasta mi nuestro "
    "nuestra también tal según mientras ahora aunque además después entre",
    "fa": "این آن او ما من شما آنها در از اما ولی و اگر با برای",
}
"""Words that often begin a sentence: after an acronym (the U.S. The ...) they say that one begins."""
