"""The documentation as a whole: its links, commands, settings and numbers are true, and it builds into a site."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer
import yaml

import doc_text
from conftest import REPOSITORY
from dragoman.cli.main import COMMANDS, app
from dragoman.config import RunConfig
from dragoman.configfile import load_config
from dragoman.presets import PRESETS
from dragoman.server.asked import Translate

DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FILES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md", *PAGES]
GROUP: Any = typer.main.get_command(app)
SOURCE = REPOSITORY / "src" / "dragoman"
# Folders that a document may name a file of.
FOLDERS = ("src", "tests", "docs", "benchmarks", "recipes")
PARTS = [path.name for path in SOURCE.iterdir() if path.is_dir()]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def parse(words: list[str]) -> None:
    """Parse a command line as dragoman does; nothing is run. Raises what dragoman raises."""
    if words and words[0] not in COMMANDS and words[0].startswith("-"):
        assert words[0] in ("--help", "-h", "--version"), words
        return
    assert words, "a command line without a command"
    command = GROUP.get_command(None, words[0])
    try:
        command.make_context(words[0], list(words[1:]))
    except typer.Exit as leaving:  # --help
        assert leaving.exit_code == 0  # noqa: PT017 (anything else propagates)


def options_of(name: str) -> set[str]:
    command = GROUP.get_command(None, name)
    own = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    return own | {"--help", "-h"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    assert doc_text.problems_of_links(path) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_command_lines_parse(path: Path) -> None:
    for line, words in doc_text.command_lines(path):
        try:
            parse(words)
        except Exception as error:
            pytest.fail(f"{name_of(path)}:{line}: dragoman {' '.join(words)}: {error!r} {error}")


def test_there_are_command_lines_of_every_command() -> None:
    """The check above would pass if it found none."""
    found = [words for path in FILES for _, words in doc_text.command_lines(path)]
    assert {words[0] for words in found if words} >= set(COMMANDS)
    assert len(found) > 100


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_commands_between_backticks_exist(path: Path) -> None:
    for code in doc_text.inline_code(path):
        if (found := re.match(r"dragoman ([a-z]\w*)(?: (.*))?$", code)) is None:
            continue
        assert found[1] in COMMANDS, code
        assert set(re.findall(r"(?<![\w-])--[\w-]+", found[2] or "")) <= options_of(found[1]), code


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_between_backticks_exist(path: Path) -> None:
    for code in doc_text.inline_code(path):
        top = code.split("/")[0]
        if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?(?:::\w+)?", code) and top in (*FOLDERS, *PARTS):
            place = code.partition("::")[0]
            assert (REPOSITORY / place).exists() or (SOURCE / place).exists(), code


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_yaml_blocks_are_configurations(path: Path, tmp_path: Path) -> None:
    for fence in doc_text.fences(path):
        if fence.language != "yaml":
            continue
        values = yaml.safe_load(fence.content)
        if {"data", "train"} <= values.keys():
            file = tmp_path / "block.yaml"
            file.write_text(fence.content, "utf-8")
            load_config(file)
            continue
        for section, fields in values.items():
            given = dict(fields)
            shape = PRESETS[given.pop("preset")] if "preset" in given else {}
            kind = RunConfig.model_fields[section].annotation
            assert kind is not None
            kind(**{**shape, **given})


def test_requests_to_the_server_are_of_its_interface() -> None:
    """The JSON of the curl lines; unknown keys are refused."""
    bodies = [
        body
        for path in PAGES
        for fence in doc_text.fences(path)
        for body in re.findall(r"/v1/translate.*?-d '(\{.*?\})'\n", fence.content, re.DOTALL)
    ]
    assert len(bodies) >= 2
    for body in bodies:
        Translate.model_validate_json(body)


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings", "commands", "modules"])
def test_pages_written_from_the_code_are_up_to_date(name: str) -> None:
    """``make docs`` writes them anew."""
    assert module_of(DOCS / f"make_{name}.py").page() == (DOCS / f"{name}.md").read_text("utf-8")


def test_every_file_says_what_it_is() -> None:
    """In its first sentence, which is all that ``modules.md`` has of it."""
    text = (DOCS / "modules.md").read_text("utf-8")
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        row = re.search(rf"^\| `{re.escape(name)}` \| (.+) \|$", text, re.MULTILINE)
        assert (row is None) == (path.name == "__init__.py"), name
        assert row is None or re.fullmatch(r"[^:].*\S\.", row[1]), name
    folders = {path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}
    assert folders == {path.parent for path in SOURCE.glob("*/__init__.py")}
    for folder in folders:
        assert re.search(rf"^## {folder.name}/\n\n\S.*\.$", text, re.MULTILINE), folder


def test_first_sentences() -> None:
    first = module_of(DOCS / "make_modules.py").first_sentence
    assert first("One. Two.\n\nThree.") == "One."
    assert first("``a|b`` of\n:class:`~x.Y`, e.g. [..., D]. ``Z`` too.") == "`a\\|b` of `x.Y`, e.g. [..., D]."
    assert first("Is it? It is.") == "Is it? It is."
    assert first("") == ""


def test_every_setting_says_what_it_is() -> None:
    """Its unit stands there, or that it has none can be seen."""
    settings = module_of(DOCS / "make_settings.py")
    sections = {"data", "tokenizer", "model", "train", "decode"}
    for _, model in settings.SECTIONS:
        for name, field in model.model_fields.items():
            assert field.description or (model is RunConfig and name in sections), f"{model.__name__}.{name}"


def numbers(text: str) -> set[str]:
    """The numbers of a text, without those inside names (int8, M2M-100) and addresses."""
    plain = re.sub(r"\]\([^)]*\)|https?://\S+", "", text)
    return set(re.findall(r"(?<![\w.-])\d[\d,.]*\d(?![\w])|(?<![\w.-])\d(?![\w.,]*\w)", plain))


def test_numbers_of_the_comparison_are_measured_or_have_a_source() -> None:
    page, _, sources = (DOCS / "comparison.md").read_text("utf-8").partition("\n## Sources\n")
    measured = page[page.index("\n## Measured\n") : page.index("\n## Where dragoman")]
    results = (DOCS / "results.md").read_text("utf-8")
    known = set(re.findall(r"\d[\d,.]*\d|\d", results))
    assert len(numbers(measured)) > 10
    assert numbers(measured) - known == set()
    told = set(re.findall(r"\d+(?:\.\d+)*", sources))
    assert {number for number in numbers(page) - known if not any(one.startswith(number) for one in told)} == set()


def test_what_the_comparison_says_of_installed_versions() -> None:
    """It names the versions beside our tests, and what was seen in them."""
    import ctranslate2
    import transformers
    from transformers.pipelines import PIPELINE_REGISTRY

    page = (DOCS / "comparison.md").read_text("utf-8")
    assert ctranslate2.__version__ in page
    assert ".".join(transformers.__version__.split(".")[:2]) in page
    assert not [task for task in PIPELINE_REGISTRY.get_supported_tasks() if "translation" in task]
    arguments = ctranslate2.Translator.translate_batch.__doc__
    assert "target_prefix" in arguments
    assert "constraint" not in arguments.replace("unconstrained", "")


class _Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.hrefs: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.hrefs.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E"]
    built = subprocess.run(
        [*command, "-d", tmp_path / "doctrees", DOCS, tmp_path / "site"], capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path: _Page(path) for path in (tmp_path / "site").rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix(".html") for path in PAGES} <= {
        path.relative_to(tmp_path / "site") for path in pages
    }
    for path, page in pages.items():
        for address in page.loaded:
            assert not urlsplit(address).netloc, f"{path.name} loads {address}"
            assert (path.parent / unquote(urlsplit(address).path)).exists(), f"{path.name} loads {address}"
        for address in page.hrefs:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert goal.exists(), f"{path.name} links {address}"
            if parts.fragment and goal in pages:
                assert unquote(parts.fragment) in pages[goal].ids, f"{path.name} links {address}"
    styles = [path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.css")]
    assert not [found for style in styles for found in re.findall(r"url\(\s*[\"']?(https?:)?//", style)]


def test_command_lines_are_found(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(
        '# A\n\n```\n$ make demo\necho "It\'s |" | .venv/bin/dragoman translate runs/a --n-best 3   # three\n'
        "KEY=v dragoman serve a b=c && dragoman info a\ntorchrun --nproc-per-node 2 -m dragoman train x.yaml \\\n"
        "    --out r\nThe dragoman's words\ndragoman convert SOURCE DEST [--from FORMAT] --to FORMAT [KEY=VALUE …]\n"
        "```\n\n```python\ndragoman = 1\n```\n\n`dragoman info X --nope` and [a](b.md#c)\n"
    )
    assert list(doc_text.command_lines(path)) == [
        (5, ["translate", "runs/a", "--n-best", "3"]),
        (6, ["serve", "a", "b=c"]),
        (6, ["info", "a"]),
        (7, ["train", "x.yaml", "--out", "r"]),
        (10, ["convert", "SOURCE", "DEST", "--from", "FORMAT", "--to", "FORMAT", "KEY=VALUE"]),
    ]
    assert doc_text.inline_code(path) == ["dragoman info X --nope"]
    assert doc_text.problems_of_links(path) == ["b.md#c: no such file"]
    with pytest.raises(Exception, match="No such option"):
        parse(["info", "X", "--nope"])
    with pytest.raises(Exception, match="sentence"):
        parse(["attention", "X", "-o", "f.html"])


def test_links_and_anchors_are_found(tmp_path: Path) -> None:
    path, other = tmp_path / "a.md", tmp_path / "b.md"
    other.write_text("# B\n\n## Same\n\n## Same\n")
    path.write_text(
        "# A `x=1`\n\n[1](b.md) [2](b.md#same-1) [3](b.md#same-2) [4](#a-x1) [5](#b) [6](c.md) ![7](d.svg) `[8](e)`\n"
        "[9](https://x.y/z)\n\n```\n[10](f)\n```\n"
    )
    assert doc_text.problems_of_links(path) == [
        "b.md#same-2: no such heading",
        "#b: no such heading",
        "c.md: no such file",
        "d.svg: no such file",
    ]


def test_numbers_are_found() -> None:
    assert numbers("1,058 MB, 0.26; int8 M2M-100 1.12.0. [x](y9) 3") == {"1,058", "0.26", "1.12.0", "3"}
