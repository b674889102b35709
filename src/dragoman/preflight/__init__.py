"""Checks of text, vocabulary and settings that need no training; they run before each one too (``start.py``).

A check is a function that takes what it needs and yields findings; ``survey.py`` reads the text once for all of them.
"""
