"""Writes text greedily with a GGUF model in llama.cpp, as often as it is asked to. A peer of test/bench/sample.ts.

Takes the file and a precision (f32 or q8) as its arguments, then lines of JSON as sample.py does. The file is written again in that
precision first.
"""

import itertools
import json
import os
import sys
import tempfile
import time

import llama_cpp

FORMATS = {"f32": llama_cpp.LLAMA_FTYPE_ALL_F32, "q8": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0}


def say(answer):
    print(json.dumps(answer), flush=True)


def converted(file, precision, folder):
    target = os.path.join(folder, "model.gguf")
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = FORMATS[precision]
    params.allow_requantize = True
    if llama_cpp.llama_model_quantize(file.encode(), target.encode(), params) != 0:
        raise SystemExit(f"llama.cpp cannot write {file} as {precision}")
    return target


def main():
    file, precision = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        target = converted(file, precision, folder)
        started = time.perf_counter()
        models = {}
        say({"seconds": time.perf_counter() - started, "versions": f"llama-cpp-python {llama_cpp.__version__}"})
        for line in sys.stdin:
            asked = json.loads(line)
            threads = asked["threads"]
            if threads not in models:
                options = {"n_threads": threads, "n_threads_batch": threads, "n_ctx": 512, "verbose": False}
                models[threads] = llama_cpp.Llama(target, **options)
            model = models[threads]
            model.reset()
            started, used = time.perf_counter(), time.process_time()
            written = model.generate(asked["prompt"], top_k=1, temp=0.0, repeat_penalty=1.0)
            tokens = list(itertools.islice(written, asked["length"]))
            say({"seconds": time.perf_counter() - started, "cpu": time.process_time() - used, "tokens": tokens})


main()
