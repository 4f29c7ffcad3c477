"""Sizes from which kernels take the place of NumPy's functions: all of them, and why.

Below its threshold NumPy's function is done before a kernel could be launched. Only eager calls
ask: lowering makes launches for arrays of every size. Marks at NumPy functions name one of them
each, which is read whenever the op runs; those in `worth` are asked once for arrays of a layout (a
test that changes them empties the caches of launches).

`python -m benchmarks thresholds` times both sides at each of them. Numbers in brackets are what it
measured: the time of a kernel over that of NumPy's function, on two cores of an EPYC.
"""

# Elements of a result. All elementwise ops and rules have the same one, so that it doesn't matter
# in how many steps something is computed: NumPy's exp differs from ours in the last bit. (Ops of
# three inputs and more, which have no functions in them, go by the largest input.)
ELEMENTS = 1 << 14  # (exp 0.9, rows of 64 0.25)
STANDARDIZED = 1 << 12  # elements: NumPy takes a dozen passes (0.3)
MIRRORED = 1 << 12  # elements of square matrices (0.8)
RANDOM_BITS = 1 << 12  # words (0.1)
AXPY = 4096  # elements; below, NumPy's two passes take less time than a call of the BLAS
# LAPACK's threads are in the way of ours, and for many small matrices it locks at each. Its price:
# a single small one (8 x 8: inv 3.4) waits for several launches.
EQUATIONS = 0

# Matrix products.
FACTORS = 6000  # elements of both factors; below, nothing else is asked
PRODUCTS = 250_000  # multiplications (0.7)
SIDE = 4  # rows and columns: with fewer of them it isn't arithmetic that takes the time

# Convolutions, measured against windows and BLAS on two cores.
CONVOLVED = 1 << 10  # elements of the larger input; below, nothing else is asked
CONVOLUTION = 1 << 19  # multiplications (0.2)
CONVOLUTION_INPUT = 1 << 17
CONVOLUTION_WEIGHT = 1 << 19
LARGE_FILTERS = 1 << 19  # elements of filters that aren't worth being packed for few places ...
FILTER_PLACES = 96  # ... which these are
# Filters of one place need no windows, only a matrix product. A BLAS is best at that, unless there
# are so many places:
LONG_PLANE = 1024

# Pooling, in elements of images.
POOLED = 1 << 10  # (max_pool 0.1)
WINDOW_SUMS = 1 << 13  # (0.4)

# Gathers and scatters.
PLACES = 1 << 12  # elements of the largest input; below, nothing else is asked
GATHERED_BYTES = 1 << 18  # in rows (0.75)
GATHERED_ELEMENTS = 1 << 17  # one by one (0.7)
TAKEN_ALONG = 1 << 12  # elements (0.6)
ADDED_BYTES = 1 << 14  # those that are added, and those that they are added to (0.2)

# Running sums and products, in elements.
RUNNING = 1 << 11  # (0.4)
RECURRENCE = 1 << 8  # NumPy makes a few calls for each step of it (0.1)
