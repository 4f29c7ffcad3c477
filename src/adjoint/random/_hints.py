"""Names that people look for in `random`, and what they are called here."""

RANDOM = {
    "default_rng": "ad.random.Generator(seed)",
    "get_rng_state": "ad.random.get_state()",
    "manual_seed": "ad.random.seed(0)",
    "multinomial": "ad.random.categorical(ad.log(p)), for it takes logits",
    "rand": "ad.random.uniform((2, 3))",
    "randint": "ad.random.integers(low, high, (2, 3))",
    "randn": "ad.random.normal((2, 3))",
    "random": "ad.random.uniform((2, 3))",
    "randperm": "ad.random.permutation",
    "set_rng_state": "ad.random.set_state(state)",
    "shuffle": "ad.random.permutation, which gives a new tensor",
    "standard_normal": "ad.random.normal((2, 3))",
}
