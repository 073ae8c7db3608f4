"""The formats of documents, a file each: `read(content, columns)` returns a `Document`."""
