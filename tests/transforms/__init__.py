"""Functions of functions: transforms, vmap, traces, checkpoints, checks of gradients."""
