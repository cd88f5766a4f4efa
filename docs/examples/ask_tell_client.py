"""Minimises a function of one's own with tune: `python3 ask_tell_client.py [TUNE]`."""
import json
import subprocess
import sys

SPACE = [
    {"name": "shape", "type": "cat", "choices": ["bowl", "valley"]},
    {"name": "x", "type": "float", "low": -5.0, "high": 5.0},
    {"name": "width", "type": "float", "low": 0.01, "high": 10.0, "log": True,
     "when": {"param": "shape", "in": ["valley"]}},
]

def function(shape, x, width=None):
    return (x - 1) ** 2 + 1 if shape == "bowl" else (x - 2) ** 2 / width + width

def call(**request):
    tune.stdin.write(json.dumps(request) + "\n")
    tune.stdin.flush()
    reply = json.loads(tune.stdout.readline())
    if "error" in reply:
        raise ValueError(reply["error"])
    return reply

command = [sys.argv[1] if len(sys.argv) > 1 else "tune", "ask-tell"]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tune:
    call(op="init", protocol=1, seed=0, direction="minimize", n_evals=100, max_step=None, space=SPACE)
    best = (float("inf"), None)
    for _ in range(100):
        trial = call(op="ask")
        value = function(**trial["params"])
        call(op="tell", id=trial["id"], value=value, state="ok")
        best = min(best, (value, trial["params"]), key=lambda result: result[0])
print(*best)
