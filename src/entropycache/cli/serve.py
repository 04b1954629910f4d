"""``entropycache serve``: reads its options; the work is done in ``server.process``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from entropycache.cli.app import (
    Device,
    Dtype,
    Model,
    app,
    import_policy,
    load_engine,
    needs_extra,
)
from entropycache.cli.decoding_options import decoding_options
from entropycache.config.generation import GenerationConfig

Name = Annotated[
    str | None, typer.Option(help="what requests call the model; default its name or folder")
]
Key = Annotated[
    str | None, typer.Option(envvar="ENTROPYCACHE_API_KEY", help="key that requests must bear")
]
Origins = Annotated[
    list[str] | None, typer.Option(help="site that may call from a browser; may be repeated")
]
Prefix = Annotated[str, typer.Option(help="prefix of the metrics; vllm for its dashboards")]


@app.command()
@decoding_options
def serve(
    options: dict[str, Any],
    model: Model = "tiny",
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on", min=0, max=65535)] = 8000,
    served_name: Name = None,
    max_sequences: Annotated[int, typer.Option(help="sequences decoded together")] = 16,
    max_positions: Annotated[int, typer.Option(help="canvas positions of all of these")] = 32_768,
    max_waiting: Annotated[int, typer.Option(help="sequences that may wait; then 429")] = 128,
    request_timeout: Annotated[float, typer.Option(help="seconds a request may take")] = 600.0,
    max_request_bytes: Annotated[int, typer.Option(help="size of a request; then 413")] = 2**20,
    api_key: Key = None,
    cors_origin: Origins = None,
    metrics_prefix: Prefix = "entropycache",
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Serve a model over OpenAI's API, with a page at / (needs the extra ``serve``).

    Decoding options are the defaults of requests that give none.
    """
    needs_extra("serve", "serving", "fastapi", "uvicorn", "prometheus_client")
    import_policy(options.get("policy"))
    defaults = GenerationConfig().merge(**options)
    from entropycache.server.process import run
    from entropycache.server.settings import ServerSettings

    limits = (max_sequences, max_positions, max_waiting, request_timeout, max_request_bytes)
    name = served_name or (Path(model).name if Path(model).is_dir() else model)
    access = (api_key, tuple(cors_origin or ()))
    settings = ServerSettings(name, defaults, *limits, *access, metrics_prefix)
    run(load_engine(model, dtype, device), settings, host, port)
