"""The studio: a web page to look inside models. Its routes, the questions its page asks of a model, and the page."""
