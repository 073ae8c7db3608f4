"""The studio's frame: the model and the text of each tab, tooltips, guided experiments, the row of tabs on a phone."""

from __future__ import annotations

import re

import pytest
from studio.browsing import open_view, settled, until, watched

MODEL = "document.querySelector('#models select').value"
TEXT = "elle a lu ce livre ."


def go(page, title: str) -> None:
    page.click(f"nav a:text-is('{title}')")
    until(page, f"document.querySelector('#title').textContent === '{title}'")
    settled(page)


def test_a_tab_keeps_its_model_and_says_when_it_must_show_another(page, studio):
    open_view(page, studio, "translate", ".panel", model="tiny-universal", text=TEXT)
    assert page.locator("#notice").inner_text() == ""
    go(page, "Gates")
    assert page.evaluate(MODEL) == "tiny-bahdanau"
    assert page.locator("#notice").inner_text() == (
        "This tab shows tiny-bahdanau: tiny-universal has no recurrent layer."
    )
    go(page, "Translate")
    assert page.evaluate(MODEL) == "tiny-universal"
    assert "tiny-universal" in page.locator("#notice").inner_text()
    go(page, "Heads")  # never opened: the model that was chosen last, not the one that Gates had to show
    assert page.evaluate(MODEL) == "tiny-universal" and page.locator("#notice").inner_text() == ""
    page.select_option("#models select", "tiny-transformer")
    settled(page)
    assert page.locator("#notice").inner_text() == ""
    go(page, "Translate")
    assert page.evaluate(MODEL) == "tiny-universal"
    page.go_back()
    until(page, f"{MODEL} === 'tiny-transformer'")


def test_what_belongs_to_another_model_is_dropped_and_comes_back_with_it(page, studio):
    open_view(page, studio, "steps", ".bars", model="tiny-transformer", text=TEXT)
    settled(page)
    page.locator(".next .bars button").nth(1).click()
    until(page, "location.hash.includes('way=')")
    settled(page)
    way = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('way')")
    go(page, "Gates")
    assert "way=" not in page.url and "model=tiny-bahdanau" in page.url
    go(page, "Steps")
    assert page.evaluate(MODEL) == "tiny-transformer" and "way=" in page.url
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('way')") == way
    assert page.locator(".steps .token.chosen").count() == 1


def test_tokens_of_another_model_in_a_link_leave_a_way_out(page, studio):
    page.goto(f"{studio}/studio/#view=steps&model=tiny-transformer&text=oui&way=6019!&step=1")
    page.wait_for_selector("#view .trouble")
    page.click("#view .trouble button:text-is('Start again')")
    page.wait_for_selector(".steps .bars")
    assert "way=" not in page.url


def test_a_link_to_a_model_that_is_not_here_says_so(page, studio):
    open_view(page, studio, "beam", model="someone-elses")
    assert "there is no model “someone-elses” here" in page.locator("#notice").inner_text()


def test_every_task_has_its_own_text(page, studio):
    """Without a language model at hand: the module that keeps the texts, asked itself."""
    open_view(page, studio, "beam")
    told = page.evaluate(
        """async () => {
          const { remember, handOver } = await import('./tab_memory.js');
          const fr = { name: 'fr', task: 'translate', source: 'fr' };
          const other = { name: 'other', task: 'translate', source: 'fr' };
          const play = { name: 'play', task: 'generate' };
          remember('translate', fr, { text: 'bonjour', way: '1.2' });
          const away = handOver('language', fr, play);
          remember('language', play, { text: 'ROMEO:' });
          return [away.text, handOver('steps', play, other).text, handOver('beam', fr, other).text ?? 'kept',
                  handOver('translate', play, fr).way];
        }"""
    )
    assert told == [None, "bonjour", "kept", "1.2"]


def test_terms_of_art_explain_themselves_to_pointer_and_keyboard(page, studio):
    open_view(page, studio, "beam", model="tiny-none")
    page.hover("#about .term >> nth=0")
    until(page, "!document.querySelector('#tooltip').hidden")
    words = page.locator("#tooltip").inner_text()
    assert words.endswith(".") and words.count(". ") == 0
    page.mouse.move(0, 0)
    until(page, "document.querySelector('#tooltip').hidden")
    page.locator("#about .term").first.focus()
    until(page, "document.activeElement.getAttribute('aria-describedby') === 'tooltip'")
    assert page.locator("#tooltip").inner_text() == words
    page.keyboard.press("Escape")
    assert page.locator("#tooltip").is_hidden()
    page.hover("#view .choice:has-text('Beam width') span")
    until(page, "document.querySelector('#tooltip').textContent.includes('greedy')")


TERMS_OF_ART = """
adaptive computation time, attention, attention rollout, attention weight, beam search, captioner, class token, decoder,
embedding, encoder, gate, gradient, gradient norm, head, hypothesis, key, language model, layer, learning rate,
length penalty, log-probability, logit, loss, patch, ponder time, positional encoding, query, recurrent layer, remainder,
self-attention, softmax, state, temperature, token, top-k, top-p, unit, validation scores, Vision Transformer
"""


def test_every_term_of_art_in_what_views_say_has_a_sentence(page, studio):
    """What the page marks in a text is taken out of it; no term of art may be left."""
    open_view(page, studio, "beam")
    terms, said = page.evaluate(
        """async () => {
          const { terms } = await import('./terms.js');
          const { explained, sentenceOf } = await import('./tooltip.js');
          const { groups } = await import('./views/index.js');
          const { views } = await (await fetch('models')).json();
          const said = {};
          for (const name of groups.flatMap((one) => one.views).filter((one) => views.includes(one))) {
            const { about, more, terms: own } = await import(`./views/${name}.js`);
            Object.assign(terms, own);
            said[name] = [about, more ?? []].flat().map((text) => {
              const place = document.createElement('p');
              place.append(...explained(text));
              const marked = [...place.querySelectorAll('.term')].map((one) => one.textContent);
              if (!marked.every(sentenceOf)) throw Error(`no sentence: ${marked}`);
              return [text, marked];
            });
          }
          return [terms, said];
        }"""
    )
    for name, sentence in terms.items():
        assert name == name.lower() and sentence.endswith(".") and ". " not in sentence, name
    assert len(said) > 10
    for view, text, marked in ((view, *each) for view, texts in said.items() for each in texts):
        left = text
        for term in sorted(marked, key=len, reverse=True):
            left = re.sub(rf"(?i)(?<![\w-]){re.escape(term)}(?![\w-])", " ", left)
        for term in (one.strip() for one in TERMS_OF_ART.replace("\n", " ").split(",")):
            assert not re.search(rf"(?i)(?<![\w-]){re.escape(term)}(?:s|es)?(?![\w-])", left), (view, term, text)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [360, 1280, 1920])
def test_nothing_is_wider_than_the_page(browser, shipped_studio, wide):
    with watched(browser, shipped_studio, viewport={"width": wide, "height": 900}) as page:
        open_view(page, shipped_studio, "heads", "svg")
        for title in page.locator("nav a").all_inner_texts():
            page.click(f"nav a:text-is('{title}')")
            until(page, f"document.querySelector('#title').textContent === '{title}'")
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), title
            if title == "Heads" and wide > 1024:  # all heads of a layer side by side
                page.wait_for_selector(".regard-grid")
                grid = "document.querySelector('.drawing:has(.regard-grid)')"
                assert page.evaluate(f"{grid}.scrollWidth <= {grid}.clientWidth")


def test_on_a_phone_the_tabs_are_one_row_that_shows_the_current_one(browser, studio):
    with watched(browser, studio, viewport={"width": 360, "height": 740}) as page:
        open_view(page, studio, "gates")
        tops = page.eval_on_selector_all(
            "nav a", "tabs => [...new Set(tabs.map(one => one.getBoundingClientRect().top))]"
        )
        assert len(tops) == 1
        left, right = page.locator("nav a[aria-current]").evaluate(
            "tab => [tab.getBoundingClientRect().left, tab.getBoundingClientRect().right]"
        )
        assert 0 <= left < right <= 360
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
