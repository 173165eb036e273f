"""Answers from a folder of documents, decoded several tokens per step, exactly as greedy would.

This package root knows its version and nothing else, so that importing it costs nothing.
"""

__version__ = "0.1.0"
