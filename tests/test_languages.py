import pytest

from regard.languages import NAMES, from_deepl, internal, is_code, name, public, to_deepl


def test_names():
    assert [name(code) for code in ("fr", "EN", "pt-BR", "zh-Hans", "zt", "nb", "ceb", "pt-PT")] == [
        *[
            "French",
            "English",
            "Portuguese (Brazil)",
            "Chinese",
            "Chinese (traditional)",
            "Norwegian",
            "Cebuano",
            "Portuguese",
        ],
    ]
    assert name("xx") == "xx"
    assert sum(len(code) == 2 for code in NAMES) >= 184 and all(
        text == text.strip() and text for text in NAMES.values()
    )


@pytest.mark.parametrize(
    ("inside", "outside"), [("pb", "pt-BR"), ("zh", "zh-Hans"), ("zt", "zh-Hant"), ("fr", "fr"), ("en", "en")]
)
def test_aliases_there_and_back(inside, outside):
    assert public(inside) == outside and public(outside) == outside
    for code in (outside, outside.upper(), outside.lower(), inside, inside.upper(), f" {outside} "):
        assert internal(code) == inside


def test_deepl_tells_variants_apart_that_we_do_not():
    codes = ["EN-GB", "en-US", "EN", "PT-BR", "PT-PT", "ZH", "ZH-HANS", "ZH-HANT", "ES-419", "NB", "fr"]
    assert [from_deepl(code) for code in codes] == ["en", "en", "en", "pt", "pt", "zh", "zh", "zt", "es", "nb", "fr"]
    assert [to_deepl(code) for code in ("en", "pb", "zh-Hant", "zt", "zh", "fr")] == [
        "EN",
        "PT",
        "ZH",
        "ZH",
        "ZH",
        "FR",
    ]


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("deu_Latn", "de"), ("deu", "de"), ("de_DE", "de"), ("DE", "de"), ("ger", "de"), ("en_XX", "en"),
        ("zho_Hans", "zh"), ("zho_Hant", "zt"), ("zh_CN", "zh"), ("zh_TW", "zt"), ("cmn_Hant", "zt"), ("pt_BR", "pb"),
        ("pes_Arab", "fa"), ("fa_IR", "fa"), ("arb_Arab", "ar"), ("als_Latn", "sq"), ("als", "als"), ("ns", "nso"),
        ("srp_Cyrl", "sr"), ("srp_Latn", "sr-latn"), ("ace_Arab", "ace-arab"), ("ace_Latn", "ace"), ("yue_Hant", "yue"),
        ("uzb_Latn", "uz"), ("uzb_Cyrl", "uz-cyrl"), ("en-GB", "en-gb"), ("sw_KE", "sw"), ("lvs_Latn", "lv"),
    ],
)  # fmt: skip
def test_codes_of_imported_models(foreign, ours):
    assert internal(foreign) == internal(foreign.upper()) == internal(ours) == ours


def test_languages_of_large_models_stay_distinct_and_have_names():
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as m2m100
    from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as mbart50
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as nllb

    for foreign in (nllb, m2m100["m2m100"], mbart50):
        codes = [internal(code) for code in foreign]
        assert len(set(codes)) == len(foreign) and set(codes) <= set(NAMES)
        assert all(internal(code) == code and is_code(code) for code in codes)
    two = {internal(code) for code in m2m100["m2m100"]} & {internal(code) for code in nllb}
    assert len(two) >= 95  # the same languages under both kinds of codes
