"""Answers from a model elsewhere: any server that speaks OpenAI's chat completions.

Passages are found here, the prompt is made here, and where the words of the answer come from is found out
here; the server alone knows tokens. No torch is loaded for it.
"""
