"""A server for trained models, in the contracts that existing clients speak.

One process speaks HTTP (app.py and what it is made of) and never imports torch; worker processes own the models
(worker.py); between them stands the pool (pool.py), which batches what many clients ask for.
"""
