"""Asks questions whose answers are known and measures what was found, what was answered and what was refused.

It knows retrievers, answerers and measures; it knows no command line, opens no index and loads no model.
"""
