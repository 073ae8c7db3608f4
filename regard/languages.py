"""Language codes: English names, and conversion from and to the codes of LibreTranslate's and DeepL's APIs.

Internally languages have the codes of LibreTranslate's models: two or three lowercase letters, pb for Brazilian
Portuguese, zt for traditional Chinese. A language in a script that is not its usual one has the script's name, too:
ace-arab. The codes of imported models (`deu_Latn`, `deu`, `de_DE`) are translated to these.
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
vec Venetian, vep Veps, vls West Flemish, war Waray, wuu Wu Chinese, xal Kalmyk, xmf Mingrelian, yue Cantonese,
ace Acehnese, ace-arab Acehnese (Arabic script), acm Mesopotamian Arabic, acq Ta'izzi-Adeni Arabic, aeb Tunisian Arabic,
ajp South Levantine Arabic, apc North Levantine Arabic, ars Najdi Arabic, ary Moroccan Arabic, awa Awadhi, ban Balinese,
bem Bemba, bho Bhojpuri, bjn Banjar, bjn-arab Banjar (Arabic script), bug Buginese, cjk Chokwe, crh Crimean Tatar,
dik Southwestern Dinka, dyu Dyula, fon Fon, fur Friulian, hne Chhattisgarhi, kab Kabyle, kac Jingpho, kam Kamba,
kbp Kabiye, kea Kabuverdianu, kmb Kimbundu, kr-arab Kanuri (Arabic script), ks-deva Kashmiri (Devanagari script),
lij Ligurian, ltg Latgalian, lua Luba-Kasai, luo Luo, lus Mizo, mag Magahi, mni Meitei, mos Mossi,
nso Northern Sotho, nus Nuer, pag Pangasinan, pap Papiamento, prs Dari, sat Santali, shn Shan, szl Silesian,
taq Tamasheq, taq-tfng Tamasheq (Tifinagh script), tpi Tok Pisin, tum Tumbuka, tzm Central Atlas Tamazight,
umb Umbundu
"""
NAMES = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))
"""All of ISO 639-1, and the further languages that language_identification.py detects or NLLB-200 translates."""

_THREE_LETTERS = """
aar aa, abk ab, afr af, aka ak, amh am, ara ar, arg an, asm as, ava av, ave ae, aym ay, aze az, bak ba, bam bm, bel be,
ben bn, bis bi, bod bo, bos bs, bre br, bul bg, cat ca, ces cs, cha ch, che ce, chu cu, chv cv, cor kw, cos co, cre cr,
cym cy, dan da, deu de, div dv, dzo dz, ell el, eng en, epo eo, est et, eus eu, ewe ee, fao fo, fas fa, fij fj, fin fi,
fra fr, fry fy, ful ff, gla gd, gle ga, glg gl, glv gv, grn gn, guj gu, hat ht, hau ha, hbs sh, heb he, her hz, hin hi,
hmo ho, hrv hr, hun hu, hye hy, ibo ig, ido io, iii ii, iku iu, ile ie, ina ia, ind id, ipk ik, isl is, ita it, jav jv,
jpn ja, kal kl, kan kn, kas ks, kat ka, kau kr, kaz kk, khm km, kik ki, kin rw, kir ky, kom kv, kon kg, kor ko, kua kj,
kur ku, lao lo, lat la, lav lv, lim li, lin ln, lit lt, ltz lb, lub lu, lug lg, mah mh, mal ml, mar mr, mkd mk, mlg mg,
mlt mt, mon mn, mri mi, msa ms, mya my, nau na, nav nv, nbl nr, nde nd, ndo ng, nep ne, nld nl, nno nn, nob nb, nor no,
nya ny, oci oc, oji oj, ori or, orm om, oss os, pan pa, pli pi, pol pl, por pt, pus ps, que qu, roh rm, ron ro, run rn,
rus ru, sag sg, san sa, sin si, slk sk, slv sl, sme se, smo sm, sna sn, snd sd, som so, sot st, spa es, sqi sq, srd sc,
srp sr, ssw ss, sun su, swa sw, swe sv, tah ty, tam ta, tat tt, tel te, tgk tg, tgl tl, tha th, tir ti, ton to, tsn tn,
tso ts, tuk tk, tur tr, twi tw, uig ug, ukr uk, urd ur, uzb uz, ven ve, vie vi, vol vo, wln wa, wol wo, xho xh, yid yi,
yor yo, zha za, zho zh, zul zu,
alb sq, arm hy, baq eu, bur my, chi zh, cze cs, dut nl, fre fr, geo ka, ger de, gre el, ice is, mac mk, mao mi, may ms,
per fa, rum ro, slo sk, tib bo, wel cy,
arb ar, ayr ay, azj az, cmn zh, ekk et, fil tl, fuv ff, gaz om, khk mn, kmr ku, knc kr, lvs lv, npi ne, ory or, pbt ps,
pes fa, plt mg, quy qu, swh sw, uzn uz, ydd yi, zsm ms, ns nso, iw he
"""
_TWO_LETTERS = {entry.split()[0]: entry.split()[1] for entry in _THREE_LETTERS.split(",")}
"""ISO 639-3, then the bibliographic codes of ISO 639-2, then the members of macrolanguages that models stand for them
with, and older codes. A language without a code of two letters keeps its three."""

_WITH_SCRIPT = {"als_latn": "sq", "zho_hans": "zh", "zho_hant": "zt", "cmn_hans": "zh", "cmn_hant": "zt"}
"""als alone is Alemannic, but models that name scripts mean Tosk Albanian."""

_USUAL_SCRIPTS = """
Arab acm acq aeb ajp apc ar ars ary arz azb ckb fa ks prs ps sd ug ur,
Armn hy, Beng as bn mni sat, Cyrl ba be bg kk ky mk mn ru sr tg tt uk, Deva awa bho hi hne mag mai mr ne sa,
Ethi am ti, Geor ka, Grek el, Gujr gu, Guru pa, Hang ko, Hant yue, Hebr he yi, Jpan ja, Khmr km, Knda kn, Laoo lo,
Mlym ml, Mymr my shn, Orya or, Sinh si, Taml ta, Telu te, Tfng tzm, Thai th, Tibt bo dz
"""
_SCRIPT_OF = {
    code: words[0].lower() for words in (entry.split() for entry in _USUAL_SCRIPTS.split(",")) for code in words[1:]
}
"""The script that goes without saying; of all other languages it is Latin."""

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


_UNDERSCORED = re.compile(r"([a-z]{2,3})_([a-z]{4}|[a-z]{2})")


def internal(code: str) -> str:
    """The internal code for a code of LibreTranslate's API, of ISO 639-3, of NLLB (deu_Latn) or of mBART (de_DE), in
    any case."""
    code = code.strip().lower()
    if code in _INTERNAL or code in _WITH_SCRIPT:
        return _INTERNAL.get(code) or _WITH_SCRIPT[code]
    if parts := _UNDERSCORED.fullmatch(code):
        language, more = parts.groups()
        if len(more) == 2:  # a country, which matters where it means a script or a variant of its own
            return _INTERNAL.get(f"{language}-{more}") or internal(language)
        language = internal(language)
        return language if more == _SCRIPT_OF.get(language, "latn") else f"{language}-{more}"
    return _TWO_LETTERS.get(code, code)


def from_deepl(code: str) -> str:
    """The internal code for a DeepL code; variants such as EN-GB are ignored."""
    code = code.strip().lower().replace("_", "-")
    return "zt" if code in ("zh-hant", "zh-tw") else code.split("-")[0]


def to_deepl(code: str) -> str:
    """The DeepL code of a language, without a variant."""
    return {"pb": "PT", "zt": "ZH"}.get(internal(code), internal(code).split("-")[0].upper())
