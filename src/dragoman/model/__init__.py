"""The Transformer, one file per box of the paper's figure (Vaswani et al. 2017, figure 1)."""
