"""The Transformer as an SVG of our own, whose boxes are links to the pages of the walk.

After figure 1 of Vaswani et al. 2017, with what stands around it in a training and in use. Colours follow the text
around the picture, so that it fits a light page and a dark one.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, HEIGHT = 760, 750
# Left edge and width of the two columns of boxes.
ENCODER, DECODER, BOX = 100, 390, 180
# Told apart by people who see colours differently (Okabe and Ito 2008), as in the other pictures.
ATTENTION, WORK, NORM, EMBED, OUT, AROUND = "#d55e00", "#0072b2", "#e69f00", "#cc79a7", "#009e73", "#888888"

DESCRIPTION = (
    "Two columns of boxes that are read from the bottom up. Left the encoder: text to ids, embeddings, positions, then "
    "a layer that is repeated N times: attention, add and norm, feed-forward, add and norm. Right the decoder: "
    "the same for the target so far, but its attention is causal, and a second attention over the encoder's result "
    "stands before the feed-forward part. Above it the output projection, from which one way leads through the loss to "
    "the training step, the other through decoding to scoring. Every box is a link to its page."
)

STYLE = """
.walk-figure { color: var(--color-foreground-primary, CanvasText); color-scheme: light dark; }
.walk-figure { max-width: 100%; height: auto; }
.walk-figure text { fill: currentColor; font: 14px system-ui, sans-serif; text-anchor: middle; }
.walk-figure .note { font-size: 12px; }
.walk-figure a, .walk-figure a:visited { color: inherit; text-decoration: none; cursor: pointer; }
.walk-figure a rect { stroke: currentColor; stroke-width: 1; fill-opacity: 0.2; }
.walk-figure a:hover rect, .walk-figure a:focus rect { stroke-width: 3; fill-opacity: 0.4; }
.walk-figure .frame { fill: none; stroke: currentColor; stroke-dasharray: 5 4; }
.walk-figure .way { fill: none; stroke: currentColor; stroke-width: 1.3; }
.walk-figure .head { fill: currentColor; stroke: none; }
"""


@dataclass(frozen=True)
class Box:
    """A link: its page, what stands in it, its upper left corner, its size and colour."""

    page: str
    text: str
    x: float
    y: float
    colour: str
    width: float = BOX
    height: float = 32


BOXES = (
    # Around the model.
    Box("schedule", "Schedule", 20, 20, AROUND, 120),
    Box("training", "Training step", 180, 20, AROUND, 140),
    Box("decoding", "Decoding", 420, 20, AROUND, 120),
    Box("scoring", "Scoring", 600, 20, AROUND, 120),
    Box("loss", "Loss", 180, 85, AROUND, 140),
    Box("output", "Output projection", DECODER, 150, OUT),
    # The decoder's layer.
    Box("norms", "Add & norm", DECODER, 225, NORM),
    Box("feed-forward", "Feed-forward", DECODER, 275, WORK),
    Box("norms", "Add & norm", DECODER, 325, NORM),
    Box("heads", "Source attention", DECODER, 375, ATTENTION),
    Box("norms", "Add & norm", DECODER, 425, NORM),
    Box("heads", "Causal self-attention", DECODER, 475, ATTENTION),
    # The encoder's layer.
    Box("norms", "Add & norm", ENCODER, 325, NORM),
    Box("feed-forward", "Feed-forward", ENCODER, 375, WORK),
    Box("norms", "Add & norm", ENCODER, 425, NORM),
    Box("heads", "Self-attention", ENCODER, 475, ATTENTION),
    # Below both.
    *(
        Box(page, text, x, y, EMBED)
        for x in (ENCODER, DECODER)
        for page, text, y in (
            ("positions", "+ positions", 565),
            ("embeddings", "Embeddings · √D", 615),
            ("text", "Text to ids", 665),
        )
    ),
    # What is inside of attention, and what looks at it.
    Box("looking", "Looking inside", 630, 325, AROUND, 120),
    Box("attention", "Dot product", 630, 375, ATTENTION, 120),
    Box("masks", "Masks", 630, 475, AROUND, 120),
    # The names of the frames.
    Box("layer", "a layer", 10, 400, AROUND, 66, 26),
    Box("stacks", "N ×", 10, 434, AROUND, 66, 26),
    Box("layer", "a layer", 298, 225, AROUND, 66, 26),
    Box("stacks", "N ×", 298, 259, AROUND, 66, 26),
)

# Dashed frames: left, top, width, height.
FRAMES = ((ENCODER - 14, 311, BOX + 28, 210), (DECODER - 14, 211, BOX + 28, 310))

MIDDLE_E, MIDDLE_D = ENCODER + BOX / 2, DECODER + BOX / 2
# Lines with an arrow at their end; the points lie on them.
WAYS: tuple[tuple[tuple[float, float], ...], ...] = (
    *(((middle, 715), (middle, 697)) for middle in (MIDDLE_E, MIDDLE_D)),
    *(((middle, 665), (middle, 647)) for middle in (MIDDLE_E, MIDDLE_D)),
    *(((middle, 615), (middle, 597)) for middle in (MIDDLE_E, MIDDLE_D)),
    *(((middle, 565), (middle, 507)) for middle in (MIDDLE_E, MIDDLE_D)),
    *(((MIDDLE_E, y), (MIDDLE_E, y - 18)) for y in (475, 425, 375)),
    *(((MIDDLE_D, y), (MIDDLE_D, y - 18)) for y in (475, 425, 375, 325, 275)),
    ((MIDDLE_D, 225), (MIDDLE_D, 182)),
    # The encoder's result to the source attention of each decoder layer.
    ((MIDDLE_E, 325), (MIDDLE_E, 300), (331, 300), (331, 391), (DECODER, 391)),
    # Shortcuts around a sub-layer.
    ((MIDDLE_E, 535), (ENCODER - 8, 535), (ENCODER - 8, 441), (ENCODER, 441)),
    ((MIDDLE_E, 416), (ENCODER - 8, 416), (ENCODER - 8, 341), (ENCODER, 341)),
    ((MIDDLE_D, 535), (DECODER + BOX + 8, 535), (DECODER + BOX + 8, 441), (DECODER + BOX, 441)),
    ((MIDDLE_D, 416), (DECODER + BOX + 8, 416), (DECODER + BOX + 8, 341), (DECODER + BOX, 341)),
    ((MIDDLE_D, 316), (DECODER + BOX + 8, 316), (DECODER + BOX + 8, 241), (DECODER + BOX, 241)),
    # In training and in use.
    ((MIDDLE_D, 150), (MIDDLE_D, 101), (320, 101)),
    ((MIDDLE_D, 101), (MIDDLE_D, 52)),
    ((250, 85), (250, 52)),
    ((140, 36), (180, 36)),
    ((540, 36), (600, 36)),
    # Beside attention.
    ((630, 391), (DECODER + BOX, 391)),
    ((630, 491), (DECODER + BOX, 491)),
    ((690, 375), (690, 357)),
)

NOTES = ((MIDDLE_E, 735, "source"), (MIDDLE_D, 735, "target so far"), (370, 95, "training"), (505, 80, "use"))


def transformer_figure() -> str:
    """The picture as SVG text, to be put into a page or opened by itself."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="walk-figure" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'role="group" aria-labelledby="walk-figure-title walk-figure-desc">',
        '<title id="walk-figure-title">The Transformer, box by box</title>',
        f'<desc id="walk-figure-desc">{DESCRIPTION}</desc>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="walk-figure-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        *(f'<rect class="frame" x="{x}" y="{y}" width="{w}" height="{h}" rx="12"/>' for x, y, w, h in FRAMES),
        *(_way(points) for points in WAYS),
        *(_link(box) for box in BOXES),
        *(f'<text class="note" x="{x:g}" y="{y}">{text}</text>' for x, y, text in NOTES),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _way(points: tuple[tuple[float, float], ...]) -> str:
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="way" d="M{path}" marker-end="url(#walk-figure-arrow)"/>'


def _link(box: Box) -> str:
    text = box.text.replace("&", "&amp;")
    middle, base = box.x + box.width / 2, box.y + box.height / 2 + 5
    return (
        f'<a href="{box.page}.html"><rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
        f'rx="6" fill="{box.colour}"/><text x="{middle:g}" y="{base:g}">{text}</text></a>'
    )
