"""Writes the pickles of this directory: `make.py VERSION PROTOCOL...` with that version of Hyperopt, a pickle for each protocol.

    pip install hyperopt==0.3.0; python make.py 0.3.0 0 2 4 5 list
    pip install hyperopt==0.2.7 'numpy<2' 'setuptools<81'; python make.py 0.2.7 4
"""

import math
import pathlib
import pickle
import sys

import numpy as np
from hyperopt import STATUS_FAIL, STATUS_OK, Trials, fmin, hp, tpe

version, *protocols = sys.argv[1:]
trials = Trials()


def objective(point):
    number = len(trials.trials)
    if number == 4:
        return {"status": STATUS_FAIL}
    if number == 6:
        raise RuntimeError("CUDA error: device-side assert triggered")
    loss = (math.log10(point["lr"]) + 3) ** 2 + point["opt"].get("momentum", 0.5)
    # Some of numpy's, some of Python's.
    loss = np.float64(loss) if number % 2 else loss
    return {"loss": loss, "status": STATUS_OK, "acc": np.float32(0.5), "more": {"f1": 0.25, "all": np.arange(3)}}


space = {
    "lr": hp.loguniform("lr", math.log(1e-5), math.log(1e-1)),
    "opt": hp.choice("opt", [{"name": "adam"}, {"name": "sgd", "momentum": hp.uniform("momentum", 0, 1)}]),
    "layers": hp.quniform("layers", 1, 9, 2),
    "kernel": hp.randint("kernel", 5),
}
try:
    fmin(
        objective,
        space,
        algo=tpe.suggest,
        max_evals=6,
        trials=trials,
        rstate=np.random.default_rng(1),
        verbose=False,
        show_progressbar=False,
    )
except RuntimeError:
    pass
trials.refresh()
here = pathlib.Path(__file__).parent
for protocol in protocols:
    if protocol == "list":
        (here / f"{version}-list.pkl").write_bytes(pickle.dumps(list(trials._dynamic_trials)))
    else:
        (here / f"{version}-protocol-{protocol}.pkl").write_bytes(pickle.dumps(trials, protocol=int(protocol)))
