"""CTranslate2 as an engine: our model folders, translated by its C++ kernels. Nothing here imports torch."""
