"""What a Markdown file says beside its Python: fenced blocks, command lines, links, anchors."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from doc_blocks import sections

_FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_SEPARATORS = {"|", "||", "&&", ";", "&"}
# Blocks of other languages hold no command lines; what a command printed is marked text.
_SHELLS = ("", "bash", "sh", "console")
_LAUNCHERS = ("python", "torchrun", "accelerate")


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, what is in it, and the line of the file that its content begins on."""

    language: str
    content: str
    line: int


def fences(path: Path) -> list[Fence]:
    """The fenced blocks of a file."""
    text = path.read_text("utf-8")
    return [
        Fence((found[2].split() or [""])[0], found[3], text.count("\n", 0, found.start(3)) + 1)
        for found in _FENCE.finditer(text)
    ]


def command_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """What follows ``dragoman`` in each command line of the fenced blocks, with its line in the file."""
    for fence in fences(path):
        if fence.language in _SHELLS:
            for number, line in _joined(fence.content):
                for words in _simple_commands(line):
                    yield fence.line + number, words


def _joined(content: str) -> Iterator[tuple[int, str]]:
    """Lines, those that end with a backslash put together with the next."""
    begun, start = "", 0
    for number, line in enumerate(content.splitlines()):
        start = start if begun else number
        if line.endswith("\\"):
            begun += line[:-1]
        else:
            yield start, begun + line
            begun = ""


def _simple_commands(line: str) -> Iterator[list[str]]:
    if not re.search(r"(?:^|[\s/])dragoman\b", line) or line.lstrip().startswith("Usage:"):
        return
    lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return  # a sentence with an apostrophe
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _SEPARATORS:
            command.append(word)
            continue
        if (arguments := _arguments(command)) is not None:
            yield arguments
        command = []


def _arguments(command: list[str]) -> list[str] | None:
    """The arguments of dragoman in a simple command; None where it is another command."""
    while command and re.match(r"\w+=", command[0]):
        command = command[1:]
    if not command:
        return None
    name = PurePosixPath(command[0]).name
    if name == "dragoman":
        found = command[1:]
    elif name in _LAUNCHERS and "-m" in command and command[command.index("-m") + 1 :][:1] == ["dragoman"]:
        found = command[command.index("-m") + 2 :]
    else:
        return None
    # A synopsis has its optional parts in brackets.
    if any(word.startswith("[") for word in found):
        found = [stripped for word in found if (stripped := word.strip("[]…"))]
    return found


def prose(path: Path) -> str:
    """A file without its fenced blocks."""
    return _FENCE.sub("", path.read_text("utf-8"))


def inline_code(path: Path) -> list[str]:
    """What stands between backticks in the prose, white space as one space."""
    return [" ".join(found[2].split()) for found in _CODE.finditer(prose(path))]


def links(path: Path) -> list[str]:
    """The targets of links and pictures that are no addresses."""
    found = _LINK.findall(_CODE.sub("", prose(path)))
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a file; of equal ones the later are numbered."""
    seen: Counter[str] = Counter()
    found = set()
    for section in sections(path):
        number = seen[section.anchor]
        seen[section.anchor] += 1
        found.add(section.anchor if number == 0 else f"{section.anchor}-{number}")
    return found


def problems_of_links(path: Path) -> list[str]:
    """What is wrong with the links of a file."""
    wrong = []
    for target in links(path):
        place, _, anchor = target.partition("#")
        goal = (path.parent / place).resolve() if place else path
        if not goal.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(goal):
            wrong.append(f"{target}: no such heading")
    return wrong
