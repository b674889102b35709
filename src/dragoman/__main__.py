"""``python -m dragoman``: the command line, where a launcher wants a module."""

from dragoman.cli.main import main

if __name__ == "__main__":
    main()
