"""The HTTP side of the service: routes, access checks, limits, keys, metrics. It never imports torch."""
