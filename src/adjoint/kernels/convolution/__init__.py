"""Direct convolution: LLVM IR text of register-tiled kernels, and the geometry that they walk over.

A convolution is a sum of products: taps (an input channel, a place in the filter) times places.
`geometry` says in tables where taps and places lie in memory, so one text serves every filter size,
stride and dilation; the texts differ only by the tile that they keep in registers. `packing` copies
inputs so that neighbouring places are neighbours in memory; `correlation` is the forward pass and
the input gradient; `weights` is the weight gradient. `tilings` chooses tiles, and makes the tables.
"""
