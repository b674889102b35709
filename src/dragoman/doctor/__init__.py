"""``dragoman doctor``: what users lose days to, looked for in a configuration, a run or a model.

``examine.py`` chooses the checks; each other file is a family of them. Those that need no model are in
:mod:`dragoman.preflight`.
"""
