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

# Log-probabilities of a token with weights and activations in int8 (a scale per row, steps of 1/127 of its largest
# value) against float32: half a step is 0.4 % of a row's largest value, and a few layers add up to some per cent of
# logits that reach ten.
INT8 = 0.5

# Log-probabilities of a token with weights rounded to 16 bits (bfloat16 keeps 8 significant ones: 0.2 %), logits
# reaching ten.
SHORT_WEIGHTS = 0.1

# The same int8 arithmetic on weights that CTranslate2 quantised itself when loading; a weight on the edge of a step may
# fall on either side.
SAME_INT8 = 1e-2

# The same float32 gradients added up in the same order, in one process or by two that send them to each other, and a
# dozen updates of Adam with them: nothing differs on the machines seen; a library may add in vectors of another width.
SAME_SUMS = 1e-6

# Eight-bit products against float32, the root mean square of the difference over that of the logits: a number of 127
# steps errs by up to half a step, about 0.5 % of a typical one, in each of some twenty products that follow each other.
INT8_RMS = 0.05

# Drawn pictures, in points of an SVG and in shades of a pixel of 255: the last digits of an arrangement depend on the
# processor's arithmetic. A tenth of a point and two shades cannot be seen.
DRAWN_POINT = 0.1
DRAWN_PIXEL = 2
