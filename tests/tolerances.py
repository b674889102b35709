"""Every tolerance of the tests, by name and with its reason. All are absolute unless they say otherwise."""

from __future__ import annotations

# Two ways of computing the same numbers in float64. One operation errs by 1e-16 of its size; a few layers of sums of
# some hundred terms with values near one leave 1e-13, and the golden files ask for 1e-9.
FLOAT64 = 1e-9

# The same in float32, where one operation errs by 6e-8: layers of sums leave 1e-5, and the golden files ask for 1e-4.
FLOAT32 = 1e-4

# Gradients in float32: sums over all positions of a batch of what FLOAT32 allows for one.
FLOAT32_GRADIENT = 1e-3

# float16 and bfloat16 carry 11 and 8 bits; relative, for values that went through a few layers.
FLOAT16 = 1e-2
BFLOAT16 = 5e-2

# Padded against unpadded, batched against single, cached against uncached: float32 sums in another order.
REORDERED = 1e-4

# Sums of log-probabilities over a sentence, in float32.
LOGPROB = 1e-3

# A score in percent against a number printed or stored in full: float64 arithmetic in another order.
SCORE = 1e-9

# A slope against a central difference, relative: the third derivative times the square of a step of 1e-5, rounding of
# the loss over that step, and a corner of a ReLU that lies inside it.
SLOPE = 1e-4

# Norms against plain sums in float64 where the spread may be a millionth of the mean: ten of sixteen digits are left.
CANCELLED = 1e-6
