"""Readers of the formats that are no plain text: bytes in, a ``Document`` out, or the reason why not.

They know no index and no chunk; none of them writes, unpacks to disk or follows a reference out of the file.
"""
