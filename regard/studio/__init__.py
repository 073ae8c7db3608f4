"""The studio: a web page to inspect models. Routes are in app.py, questions to models in questions/."""
