"""Small model files for tests, written byte by byte: ONNX is protobuf, and its own package is not needed to run models."""

import struct

_FLOAT, _UINT8, _INT64 = 1, 2, 7


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _node(kind, inputs, outputs, **attributes):
    body = b"".join(_bytes(1, name) for name in inputs) + b"".join(_bytes(2, name) for name in outputs)
    body += _bytes(4, kind)
    for name, value in attributes.items():
        if isinstance(value, list):
            told = b"".join(_number(8, item) for item in value) + _number(20, 7)
        else:
            told = _number(3, value) + _number(20, 2)
        body += _bytes(5, _bytes(1, name) + told)
    return _bytes(1, body)


def _value(field, name, element, shape):
    dims = b"".join(_bytes(1, _bytes(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in shape)
    return _bytes(field, _bytes(1, name) + _bytes(2, _bytes(1, _number(1, element) + _bytes(2, dims))))


def _constant(name, numbers, shape):
    body = b"".join(_number(1, dim) for dim in shape) + _number(2, _FLOAT) + _bytes(8, name)
    return _bytes(5, body + _bytes(9, struct.pack(f"<{len(numbers)}f", *numbers)))


def model_file(path, nodes, inputs, outputs, constants=(), metadata=None):
    """Write a model; inputs and outputs are (name, shape), names of dimensions standing for free ones."""
    graph = b"".join(_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes) + _bytes(2, "g")
    graph += b"".join(_constant(*constant) for constant in constants)
    graph += b"".join(_value(11, name, kind[0] if kind else _FLOAT, shape) for name, shape, *kind in inputs)
    graph += b"".join(_value(12, name, kind[0] if kind else _FLOAT, shape) for name, shape, *kind in outputs)
    model = _number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, 17))
    for key, value in (metadata or {}).items():
        model += _bytes(14, _bytes(1, key) + _bytes(2, value))
    path.write_bytes(model)
    return str(path)


def means(path, batch="n", channels=3, height="h", width="w", metadata=None):
    """Mean of each channel, (n, channels); and the picture's corner, (n, channels, 1, 1)."""
    return model_file(
        path,
        [
            ("ReduceMean", ["x"], ["mean"], {"axes": [2, 3], "keepdims": 0}),
            ("MaxPool", ["x"], ["most"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ],
        [("x", (batch, channels, height, width))],
        [("mean", (batch, channels)), ("most", (batch, channels, "a", "b"))],
        metadata=metadata,
    )


def identity(path, shape=("n", 3, "h", "w"), element=_FLOAT):
    """What goes in."""
    return model_file(path, [("Identity", ["x"], ["y"])], [("x", shape, element)], [("y", shape, element)])


def differences(path, length=2):
    """Frame pairs, (n, t, 1, h, w): mean over time, (n, 1, h, w)."""
    return model_file(
        path,
        [("ReduceMean", ["x"], ["y"], {"axes": [1], "keepdims": 0})],
        [("x", ("n", length, 1, "h", "w"))],
        [("y", ("n", 1, "h", "w"))],
    )
