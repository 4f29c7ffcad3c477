"""The backward pass: which node comes next, its derivative rule, and sums of gradients.

It may import the ops: all it does is call them, so that it can be traced and differentiated itself.
"""
