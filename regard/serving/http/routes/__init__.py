"""The routers, one file per API. A route reads fields, calls the translator or the pool, and shapes the response."""
