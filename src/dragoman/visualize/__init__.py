"""Pictures of a translation and of its making: arrays and tokens in, PNG, SVG, HTML and JSON out; knows no model."""
