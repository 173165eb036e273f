"""Looks at what ragla needs of its surroundings: what is installed, the machine, models, the terminal.

It loads nothing heavy into this process, reads no document, opens no index and prints nothing.
"""

from ragla.environment.finding import Finding, Surroundings, exit_code
from ragla.environment.looks import look_around

__all__ = ["Finding", "Surroundings", "exit_code", "look_around"]
