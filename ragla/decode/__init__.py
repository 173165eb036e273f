"""Decodes with a target model: drafts are verified as a tree, one forward pass a step, greedy's text.

It knows models and tokens; it knows no documents, no retrieval, no console and writes no files.
"""
