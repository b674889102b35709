"""The steps of :class:`~dragoman.translator.Translator`: text to jobs for a search, what it finds to translations."""
