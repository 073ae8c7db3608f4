"""Language codes: English names, and conversion from and to the codes of LibreTranslate's and DeepL's APIs.

Internally languages have the codes of LibreTranslate's models: two or three lowercase letters, pb for Brazilian
Portuguese, zt for traditional Chinese.
"""

from __future__ import annotations

import re

_NAMES = """
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese, av Avaric,
ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bh Bihari, bi Bislama, bm Bambara, bn Bengali,
bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican, cr Cree, cs Czech,
cu Church Slavonic, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha, ee Ewe, el Greek, en English,
eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fulah, fi Finnish, fj Fijian, fo Faroese, fr French,
fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew,
hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, hz Herero, ia Interlingua,
id Indonesian, ie Interlingue, ig Igbo, ii Sichuan Yi, ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut,
ja Japanese, jv Javanese, ka Georgian, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Greenlandic, km Khmer,
kn Kannada, ko Korean, kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish,
lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese,
mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru,
nb Norwegian, nd North Ndebele, ne Nepali, ng Ndonga, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele,
nv Navajo, ny Chichewa, oc Occitan, oj Ojibwa, om Oromo, or Odia, os Ossetian, pa Punjabi, pi Pali, pl Polish,
ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit,
sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, sh Serbo-Croatian, si Sinhala, sk Slovak, sl Slovenian,
sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese, sv Swedish,
sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tonga,
tr Turkish, ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda,
vi Vietnamese, vo Volapük, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu,
pb Portuguese (Brazil), zt Chinese (traditional), als Alemannic, arz Egyptian Arabic, ast Asturian,
azb South Azerbaijani, bar Bavarian, bcl Central Bikol, bpy Bishnupriya, bxr Buryat, cbk Chavacano, ceb Cebuano,
ckb Central Kurdish, diq Zazaki, dsb Lower Sorbian, dty Doteli, eml Emilian-Romagnol, frr Northern Frisian,
gom Goan Konkani, hif Fiji Hindi, hsb Upper Sorbian, ilo Iloko, jbo Lojban, krc Karachay-Balkar, lez Lezghian,
lmo Lombard, lrc Northern Luri, mai Maithili, mhr Eastern Mari, min Minangkabau, mrj Western Mari, mwl Mirandese,
myv Erzya, mzn Mazanderani, nah Nahuatl, nap Neapolitan, nds Low German, new Newari, pam Pampanga,
pfl Palatine German, pms Piedmontese, pnb Western Punjabi, rue Rusyn, sah Yakut, scn Sicilian, sco Scots, tyv Tuvan,
vec Venetian, vep Veps, vls West Flemish, war Waray, wuu Wu Chinese, xal Kalmyk, xmf Mingrelian, yue Cantonese
"""
NAMES = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))
"""All of ISO 639-1, and the further languages that language_identification.py detects."""

_PUBLIC = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
_INTERNAL = {public.lower(): code for code, public in _PUBLIC.items()} | {"zh-cn": "zh", "zh-tw": "zt"}


_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})?")


def is_code(text: str) -> bool:
    """Whether a text has the form of a language code, such as fr or pt-BR, known or not."""
    return _CODE.fullmatch(text.strip().lower()) is not None


def is_known(code: str) -> bool:
    return internal(code) in NAMES


def code_of(name: str) -> str:
    """The code of a language by its English name (French is fr); "" if there is none."""
    return next((code for code, known in NAMES.items() if known.lower() == name.strip().lower()), "")


def split_pair(text: str) -> tuple[str, str] | None:
    """The two languages of a text such as fr-en or pt-BR-en; None unless both are known."""
    words = text.split("-")
    splits = [("-".join(words[:at]), "-".join(words[at:])) for at in range(1, len(words))]
    return next(((one, other) for one, other in splits if is_known(one) and is_known(other)), None)


def name(code: str) -> str:
    """The English name of a language; an unknown code is returned as it is."""
    known = internal(code)
    return NAMES.get(known) or NAMES.get(known.split("-")[0]) or code


def public(code: str) -> str:
    """The code in LibreTranslate's API."""
    return _PUBLIC.get(internal(code), internal(code))


def internal(code: str) -> str:
    """The internal code for a code of LibreTranslate's API, in any case."""
    code = code.strip().lower()
    return _INTERNAL.get(code, code)


def from_deepl(code: str) -> str:
    """The internal code for a DeepL code; variants such as EN-GB are ignored."""
    code = code.strip().lower().replace("_", "-")
    return "zt" if code in ("zh-hant", "zh-tw") else code.split("-")[0]


def to_deepl(code: str) -> str:
    """The DeepL code of a language, without a variant."""
    return {"pb": "PT", "zt": "ZH"}.get(internal(code), internal(code).split("-")[0].upper())
