import pytest

from regard.languages import NAMES, from_deepl, internal, name, public, to_deepl


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
