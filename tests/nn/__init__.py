"""Models: layers, optimizers, schedulers, loaders, training."""
