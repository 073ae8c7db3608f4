"""The HTTP server for trained models, compatible with clients of LibreTranslate and DeepL.

One process speaks HTTP (http/) and never imports torch. It splits texts into sentences and joins their translations
(text/). Worker processes own the models; a pool batches the sentences of all clients for them (workers/).
"""
