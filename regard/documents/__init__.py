"""Translates documents: office files, pages, books, subtitles, catalogues, tables. `translate_document` does it.

    document.py         a document: its texts, and how it is written again with others
    formats.py          which format a file has
    format/             a file per format
    pdf/                paragraphs from the pages of a PDF, and new documents made of them
    inline.py           bold, links, footnotes within a text, as tags that follow their words
    archive.py, xml_tree.py, text_file.py, limits.py   reading files that may come from anyone
    translation.py      a document, with a translator

Knows neither models nor HTTP, and imports no torch.
"""
