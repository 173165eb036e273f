def linear(
    x: int,
    x_row: int,
    rows: int,
    inputs: int,
    outputs: int,
    weights: int,
    format: int,
    scales: int,
    bias: int,
    out: int,
    threads: int,
    /,
) -> None: ...
def attention(
    query: int,
    query_head: int,
    query_row: int,
    keys: int,
    key_head: int,
    key_row: int,
    values: int,
    value_head: int,
    value_row: int,
    visible: int,
    visible_row: int,
    out: int,
    rows: int,
    heads: int,
    groups: int,
    n_keys: int,
    width: int,
    value_width: int,
    scale: float,
    softcap: float,
    threads: int,
    /,
) -> None: ...
def rank(
    x: int, x_row: int, rows: int, n: int, count: int, ids: int, values: int, threads: int, /
) -> None: ...
def layers(
    table: int,
    n_layers: int,
    last_norm: int,
    hidden: int,
    rows: int,
    prefix: int,
    capacity: int,
    hidden_size: int,
    heads: int,
    groups: int,
    width: int,
    cosines: int,
    sines: int,
    visible: int,
    visible_within: int,
    epsilon: float,
    scale: float,
    threads: int,
    /,
) -> None: ...
def pack(
    weight: int, row_bytes: int, packed: int, outputs: int, inputs: int, element_size: int, threads: int, /
) -> None: ...
def large_pages(address: int, n_bytes: int, /) -> None: ...
def use(name: str, /) -> str | None: ...
def kind() -> str: ...
