"""Answers over HTTP, in the form that OpenAI's clients speak: one model, one question after the other.

It knows requests and responses; how an answer is found and decoded it leaves to ``ragla.answer``.
"""
