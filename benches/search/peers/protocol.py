"""The loop of a peer: requests from stdin, replies to stdout (docs/ask-tell.md, as far as the benchmark needs it)."""
import json
import os
import sys
import warnings


def is_active(parameter, params):
    """Whether the parameter exists, given the values of its parents."""
    when = parameter.get("when")
    return when is None or (when["param"] in params and params[when["param"]] in when["in"])


def serve(make):
    """`make(init)` gives an object with `name`, `ask()` -> (id, params), `report(id, step, value)` -> bool,
    `tell(id, value, state)`."""
    warnings.simplefilter("ignore")
    # Libraries print what they like: only replies go where the other side reads.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sampler = None
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        if op == "init":
            sampler = make(request)
            reply = {"ok": True, "name": sampler.name}
        elif op == "ask":
            number, params = sampler.ask()
            reply = {"id": number, "params": params}
        elif op == "report":
            reply = {"prune": bool(sampler.report(request["id"], request["step"], request["value"]))}
        elif op == "tell":
            sampler.tell(request["id"], request["value"], request["state"])
            reply = {"ok": True}
        else:
            break
        out.write(json.dumps(reply) + "\n")
        out.flush()
