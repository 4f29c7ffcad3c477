"""Recurrent layers and attention: lines of a table as in layer_cases."""

import numpy as np

from tests.nn.layer_cases import Table
from tests.support.neural_cases import reals

CASES = Table("layer_values_sequence.npz")
add = CASES.add

# Recurrent layers: a sequence of length 4, a batch of 2, 3 features, states of 5.
X = reals(4, 2, 3)
H, H4 = reals(1, 2, 5, seed=1), reals(4, 2, 5, seed=1)
for name in ("RNN", "GRU", "LSTM"):
    pair = (lambda h: (h, h[::-1] * 0.5)) if name == "LSTM" else (lambda h: h)
    add(f"{name}(3, 5)", X)
    add(f"{name}(3, 5)", X, pair(H))
    add(f"{name}(3, 5)", X[:, 0], hx=pair(H[:, 0]))
    add(f"{name}(3, 5, bias=False)", X[:1], pair(H))
    add(f"{name}(3, 5, batch_first=True)", X, pair(reals(1, 4, 5)))
    add(f"{name}(3, 5, bidirectional=True)", X[:, 0])
    add(f"{name}(3, 5, 2, bidirectional=True, batch_first=True)", X[:2], pair(H4))
    add(f"{name}(3, 5, num_layers=2, dropout=0.5)", X, training=False)
    add(f"{name}(3, 5, num_layers=2, dropout=1.0)", X)
    add(f"{name}Cell(3, 5)", X[0])
    add(f"{name}Cell(3, 5)", X[0], pair(H[0]))
    add(f"{name}Cell(3, 5, bias=False)", X[0, 0], pair(H[0, 0]))
add("RNN(3, 5, 2, 'relu')", X)
add("RNN(3, 5, nonlinearity='relu', bidirectional=True)", X, reals(2, 2, 5))
add("RNNCell(3, 5, nonlinearity='relu')", X[0])
add("LSTM(3, 5, proj_size=2)", X, (reals(1, 2, 2), H))
add("LSTM(3, 5, 2, bidirectional=True, proj_size=2)", X)

# Attention: 3 queries, 4 keys, a batch of 2, 4 features in 2 heads.
Q, K, V = reals(3, 2, 4), reals(4, 2, 4, seed=1), reals(4, 2, 4, seed=2)
NEVER = np.array([[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]], bool)
PADDED = np.array([[0, 0, 1, 1], [0, 0, 0, 1]], bool)
FLOATS = np.where(NEVER, -np.inf, reals(3, 4))
EACH = np.arange(48).reshape(4, 3, 4) % 5 == 0
add("MultiheadAttention(4, 2)", Q, K, V)
add("MultiheadAttention(4, 2, bias=False)", Q, K, V, average_attn_weights=False)
add("MultiheadAttention(4, 2, batch_first=True)", Q[:2], K[:2], V[:2], need_weights=False)
add("MultiheadAttention(4, 1)", Q[:, 0], K[:, 0], V[:, 0])
add("MultiheadAttention(4, 2, kdim=3, vdim=5)", Q, reals(4, 2, 3), reals(4, 2, 5))
add("MultiheadAttention(4, 2, kdim=3, bias=False)", Q, reals(4, 2, 3), V, need_weights=False)
for need_weights in (True, False):
    for code, mask in {
        "MultiheadAttention(4, 2, dropout=0.5)": NEVER,
        "MultiheadAttention(4, num_heads=2)": FLOATS,
        "MultiheadAttention(embed_dim=4, num_heads=2)": EACH,
    }.items():
        options = {"need_weights": need_weights, "attn_mask": mask, "training": False}
        padding = PADDED if mask.dtype == bool else np.where(PADDED, -np.inf, 0.5)
        add(code, Q, K, V, **options)
        add(code, Q, K, V, key_padding_mask=padding, **options)
add("MultiheadAttention(4, 2)", Q, K, V, key_padding_mask=PADDED)
add("MultiheadAttention(4, 2)", Q, K, V, need_weights=False, key_padding_mask=-3.0 * PADDED)
add("MultiheadAttention(4, 2)", Q[:, 0], K[:, 0], V[:, 0], PADDED[1], attn_mask=NEVER)
add("MultiheadAttention(4, 2)", Q[:, 0], K[:, 0], V[:, 0], attn_mask=EACH[:2])

# Transformers of 4 features in 2 heads, 5 inside.
LATER = np.triu(np.ones((3, 3), bool), 1)
ENCODER = "TransformerEncoderLayer(4, 2, 5, dropout=0.0"
for rest in (
    ")",
    ", activation='gelu')",
    ", norm_first=True)",
    ", bias=False)",
    ", batch_first=True, layer_norm_eps=0.1)",
):
    add(ENCODER + rest, Q)
add(ENCODER + ")", Q[:, 0], training=False)
add(ENCODER + ")", Q, LATER)
add(ENCODER + ")", Q, LATER, is_causal=True)
add(ENCODER + ")", Q, src_key_padding_mask=PADDED[:, 1:])
add(ENCODER + ", norm_first=True)", Q, LATER, PADDED[:, 1:])
add("TransformerEncoderLayer(4, 2, 5, 0.9)", Q, training=False)
PLAIN = ", enable_nested_tensor=False)"  # else PyTorch warns that it can't use them
STACK = f"TransformerEncoder({ENCODER}), 2"
NORMED = f"{STACK}, norm=LayerNorm(4)"
add(STACK + ")", Q, torch=STACK + PLAIN)
add(NORMED + ")", Q, LATER, PADDED[:, 1:], torch=NORMED + PLAIN)
DECODER = "TransformerDecoderLayer(4, 2, 5, dropout=0.0"
for rest in (")", ", activation='gelu', bias=False)", ", norm_first=True)"):
    add(DECODER + rest, Q, K)
add(DECODER + ", batch_first=True)", Q[:2], K[:2])
add(DECODER + ")", Q, K, LATER, NEVER)
add(DECODER + ")", Q, K, LATER, tgt_is_causal=True, memory_key_padding_mask=PADDED)
add(f"TransformerDecoder({DECODER}), 2, norm=LayerNorm(4))", Q, K)
SMALL = "Transformer(4, 2, 1, 1, 5, 0.0, batch_first=True)"
add(SMALL, Q[:2], reals(2, 3, 4, seed=1), tgt_mask=LATER)
