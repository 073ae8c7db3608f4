"""Before anything of ours is imported: every shape and type in a signature is checked whenever it is called."""

from hypothesis import settings
from jaxtyping import install_import_hook

hook = install_import_hook("regard", "checked.checked")

# A busy machine must not fail a test, and the same examples must run for everybody.
settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")
