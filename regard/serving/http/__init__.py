"""The HTTP side of the server: app, routes, middleware, access control, limits and metrics. It never imports torch."""
