"""Asks and tells into a study of tune's on a PostgreSQL server: check_server.py URL STUDY TRIALS.

Prints as JSON what Optuna reads of the study afterwards.
"""

import json
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
study = optuna.load_study(study_name=name, storage=url)


def objective(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("optim.lr", 1e-5, 1.0, log=True)
    trial.report(1.0 + rate, 1)
    return 1.0 + rate


study.optimize(objective, n_trials=count)
trials = study.get_trials(deepcopy=False)
print(
    json.dumps(
        {
            "numbers": [trial.number for trial in trials],
            "values": {str(trial.number): trial.value for trial in trials if trial.value is not None},
            "best": study.best_trial.number,
            "states": sorted({trial.state.name for trial in trials}),
        }
    )
)
