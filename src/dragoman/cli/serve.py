"""``dragoman serve``: translation over HTTP."""

from __future__ import annotations

import functools
import os
import re
from typing import Annotated

import typer

from dragoman.cli import common, ending
from dragoman.errors import ConfigError, UsageError
from dragoman.server.keys import check

# Holds keys, with commas or white space between: unlike a command line it is not shown to everybody on the machine.
KEYS = "DRAGOMAN_API_KEYS"
# All pages, or those of scheme://host[:port], as browsers write it: in small letters and ASCII.
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL [NAME=MODEL ...]", help="Model directories, with names if you like.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 5000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help=f"Ask for this key; repeat it for several. {KEYS} may hold keys too."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=1024, help="Processes that translate for each model and share the threads.")
    ] = 1,
    precision: Annotated[str, typer.Option(metavar="fp32|int8|bf16", help="Type of the weights.")] = "fp32",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the step of greedy search, text by text; once for a shape.")
    ] = False,
    max_queue: Annotated[int, typer.Option(min=1, max=100_000, help="Requests that may wait for a model.")] = 256,
    max_characters: Annotated[int, typer.Option(min=1, max=10_000_000, help="Characters of a request.")] = 20_000,
    timeout: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds to the answer of a request.")] = 60.0,
    max_work: Annotated[
        int, typer.Option(min=1, max=10**12, help="Target tokens of a request, those of all hypotheses together.")
    ] = 2_500_000,
    grace: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds that a stop leaves to requests that came.")
    ] = 25.0,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages of this origin may ask; * for all. Repeat it for several."),
    ] = None,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Serve models: LibreTranslate's interface, more of our own under /v1, and a web page.

    Requests of many clients are translated together. The address stands on stderr as soon as the server answers.
    At SIGTERM and Ctrl-C it takes no more requests, finishes those that came as far as --grace allows, and ends.

    \b
    Example:
      dragoman serve runs/demo/best
      dragoman serve small=runs/small/best large=runs/large/best --host 0.0.0.0 --port 8080
      curl -d q="Good morning." -d source=en -d target=de http://127.0.0.1:5000/translate
    """
    keys = [*(api_key or []), *os.environ.get(KEYS, "").replace(",", " ").split()]
    if any(not key.strip() for key in keys):
        raise UsageError(f"an empty key was given; leave --api-key out, or give keys in {KEYS}.")
    check(keys)
    for origin in cors or ():
        if not _ORIGIN.fullmatch(origin):
            raise UsageError(
                f'--cors is "{origin}", which no page can come from; give * or an origin such as https://example.org, '
                "without a path."
            )
    own = threads if workers == 1 else max(1, (threads or os.cpu_count() or 1) // workers)
    common.prepare_runtime(own)
    ending.left_to_others()
    try:
        from dragoman.server.run import listen
        from dragoman.server.run import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("dragoman", "torch"):
            raise
        raise ConfigError(
            f"serving needs {error.name}, which is not installed; pip install 'dragoman[serve]'."
        ) from None
    from dragoman.server.catalogue import Catalogue
    from dragoman.server.limits import Limits
    from dragoman.server.metrics import Metrics
    from dragoman.server.service import Service

    limits = Limits(
        max_queue=max_queue,
        max_characters=max_characters,
        timeout=timeout,
        max_work=max_work,
        grace=grace,
        body_seconds=min(Limits.body_seconds, timeout),
    )
    metrics = Metrics()
    with listen(host, port) as listener:
        catalogue = Catalogue.load(
            models,
            limits,
            metrics,
            device=device,
            precision=precision,
            compile=compiled,
            helpers=0 if workers == 1 else workers,
            prepare=functools.partial(common.prepare_runtime, own),
        )
        run(Service(catalogue, limits, metrics, keys), listener, cors or ())
