"""What the code says of itself, as Markdown: commands, settings, JSON documents, modules.

It knows no document: ``scripts/make_docs.py`` puts the parts where they belong.
"""
