"""Names that people look for in `nn` and in modules, and what they are called here."""

LAYERS = {
    "Buffer": "the method register_buffer(name, tensor) of a module",
    "DataParallel": "nothing: leave it out; a CPU's cores share the work by themselves",
    "Hardshrink": "ad.where(ad.abs(x) > 0.5, x, 0)",
    "LazyLinear": "nn.Linear, with the number of features that come in",
    "Softmax2d": "nn.Softmax(axis=-3)",
    "Softshrink": "x - ad.clip(x, -0.5, 0.5)",
    "SyncBatchNorm": "nn.BatchNorm2d",
    "Tanhshrink": "x - ad.tanh(x)",
    "UpsamplingBilinear2d": 'nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)',
    "UpsamplingNearest2d": "nn.Upsample(scale_factor=2)",
    "parallel": "nothing: a CPU's cores share the work by themselves",
    "parameter": "nn.Parameter",
}
LAYER_UTILITIES = {
    "clip_grad_norm": "nn.utils.clip_grad_norm_",
    "rnn": "nothing: there are no packed sequences; pad them, and mask what is padding",
}
MODULES = {
    "_modules": "dict(model.named_children()); assign to attributes, or delete them, to change it",
    "_parameters": "dict(model.named_parameters(recurse=False)); del model.weight takes one out",
    "bfloat16": "model.half(): there is no bfloat16",
    "compile": "ad.compile(model), or better ad.compile of the whole training step",
    "cuda": 'model.to("webgpu")',
    "register_full_backward_hook": "x.register_hook, of the output that a forward hook is given",
    "share_memory": "nothing: workers are threads",
    "type": "model.to(ad.float64)",
}
