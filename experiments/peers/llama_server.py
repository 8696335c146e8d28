"""llama.cpp's HTTP server (Python package xllamacpp) on 127.0.0.1; ends with SIGTERM. llama_server.sh starts it.

It lists its model as NAME@INSTRUCTION-SET, so that a report says what it was built for.
"""
import argparse
import os
import pathlib
import signal
import tempfile

import xllamacpp

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="a .gguf file")
parser.add_argument("--draft-model", help="another, for --proposer draft")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--proposer", choices=("none", "ngram", "draft"), default="none")
parser.add_argument("--draft-len", type=int, default=0, help="drafts of a step at most")
parser.add_argument("--ngram", type=int, default=2, help="tokens that a lookup matches")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--context", type=int, default=1024)


def instruction_set():
    """The widest of those that the library says it uses."""
    uses = {word.split("=")[0].strip() for word in xllamacpp.get_system_info().split("|") if "= 1" in word}
    uses = {name.removeprefix("CPU :").strip() for name in uses}
    for name in ("AMX_INT8", "AVX512_BF16", "AVX512", "AVX2", "AVX", "SSE3", "NEON"):
        if name in uses:
            return name
    return "scalar"


def parameters(args, slots):
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {f"{pathlib.Path(args.model).resolve().stem}@{instruction_set()}"}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_ctx = args.context
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    # Prefixes are forgotten between repetitions: POST /slots/0?action=erase, which asks for a folder for slots.
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.endpoint_slots = True
    params.slot_save_path = slots + "/"
    if args.proposer == "ngram":
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        params.speculative.ngram_simple.size_n = args.ngram
        params.speculative.ngram_simple.size_m = args.draft_len
        params.speculative.ngram_simple.min_hits = 1
    if args.proposer == "draft":
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        params.speculative.draft.mparams.path = args.draft_model
        params.speculative.draft.n_max = args.draft_len
        params.speculative.draft.cpuparams.n_threads = args.threads
        params.speculative.draft.cpuparams_batch.n_threads = args.threads
    return params


def main():
    args = parser.parse_args()
    if args.proposer == "draft" and not args.draft_model:
        parser.error("--proposer draft needs --draft-model")
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before its threads begin, which inherit this
    slots = tempfile.mkdtemp(prefix="llama-slots-")
    server = xllamacpp.Server(parameters(args, slots))
    print(f"{server.listening_address}, {xllamacpp.get_system_info()}", flush=True)
    signal.sigwait(signals)
    os.rmdir(slots)
    os._exit(0)  # its threads wait for requests that nobody sends


main()
