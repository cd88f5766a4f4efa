"""Real Optuna on a database of tune, for tests/program/optuna.rs.

    check_optuna.py write DATABASE STUDY        makes a study with every kind of value
    check_optuna.py dump DATABASE STUDY         loads it, prints everything as JSON
    check_optuna.py add DATABASE STUDY          asks, tells and enqueues
    check_optuna.py add-several DATABASE STUDY  asks and tells, with several objectives
    check_optuna.py importances DATABASE STUDY  prints the importances (PED-ANOVA)
    check_optuna.py delete DATABASE STUDY       deletes it
    check_optuna.py full DATABASE STUDY         importances by fANOVA, and plots

DATABASE is the path of a file, or the URL of a database on a server. Numbers that JSON lacks are printed as the strings "NaN", "Infinity" and "-Infinity".
"""

import datetime
import json
import math
import sys

import optuna
from optuna.distributions import distribution_to_json

optuna.logging.set_verbosity(optuna.logging.ERROR)


def clean(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): clean(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    return value


def time_text(time):
    """The time as it stands in the database: Optuna 5 keeps UTC there and shows local time."""
    if time is None:
        return None
    if int(optuna.__version__.split(".")[0]) >= 5:
        time = time.astimezone(datetime.timezone.utc)
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


def dump_trial(trial):
    return {
        "number": trial.number,
        "trial_id": trial._trial_id,
        "state": trial.state.name,
        "values": clean(trial.values or []),
        "params": clean(trial.params),
        "distributions": {
            name: json.loads(distribution_to_json(d)) for name, d in trial.distributions.items()
        },
        "intermediate": {str(s): clean(v) for s, v in trial.intermediate_values.items()},
        "user_attrs": clean(trial.user_attrs),
        "system_attrs": clean(trial.system_attrs),
        "datetime_start": time_text(trial.datetime_start),
        "datetime_complete": time_text(trial.datetime_complete),
    }


def dump(study):
    single = len(study.directions) == 1
    return {
        "optuna": optuna.__version__,
        "name": study.study_name,
        "directions": [d.name for d in study.directions],
        "metric_names": study.metric_names,
        "user_attrs": clean(study.user_attrs),
        "best": study.best_trial.number if single else None,
        "front": None if single else sorted(t.number for t in study.best_trials),
        "trials": [dump_trial(t) for t in study.get_trials(deepcopy=False)],
    }


def suggest(trial):
    return {
        "lr": trial.suggest_float("lr", 1e-5, 0.1, log=True),
        "dropout": trial.suggest_float("dropout", 0.0, 0.5),
        "momentum": trial.suggest_float("momentum", 0.5, 0.99, step=0.01),
        "layers": trial.suggest_int("layers", 1, 8),
        "batch": trial.suggest_int("batch", 16, 512, log=True),
        "width": trial.suggest_int("width", 64, 1024, step=64),
        "opt": trial.suggest_categorical("opt", ["adam", "sgd", None, True, 3, 0.5, "é"]),
    }


def add(study):
    """One trial of each way in which another program adds to a study."""
    trial = study.ask()
    params = suggest(trial)
    trial.report(params["lr"], 1)
    trial.report(float("nan"), 2)
    trial.set_user_attr("from", "optuna é")
    trial.set_user_attr("odd", {"nan": float("nan"), "list": [float("inf"), None]})
    study.tell(trial, params["lr"])
    trial = study.ask()
    suggest(trial)
    trial.report(-math.inf, 1)
    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    trial = study.ask()
    suggest(trial)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)
    study.enqueue_trial({"lr": 0.01, "opt": None}, user_attrs={"memo": "by hand"})
    # An ask takes the trial that waits: let one more wait.
    suggest(study.ask())
    study.enqueue_trial({"layers": 3})


def add_several(study):
    """A trial better than all in its first objective, and one worse than all."""
    for sign in (-1, 1):
        trial = study.ask()
        trial.suggest_float("optim.lr", 1e-5, 1.0, log=True)
        study.tell(trial, [sign * 1e9] * len(study.directions))


def full(study):
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    importances = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    plots = [
        optuna.visualization.plot_optimization_history,
        optuna.visualization.plot_intermediate_values,
        optuna.visualization.plot_parallel_coordinate,
        optuna.visualization.plot_slice,
    ]
    for plot in plots:
        plot(study)
    return importances


def importances(study):
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())


def main():
    command, database, name = sys.argv[1:]
    url = database if "://" in database else "sqlite:///" + database
    storage = optuna.storages.RDBStorage(url)
    if command == "write":
        sampler = optuna.samplers.RandomSampler(seed=0)
        study = optuna.create_study(
            study_name=name, storage=storage, direction="maximize", sampler=sampler
        )
        study.set_user_attr("note", {"é": [1, 2.5, None, float("nan")]})
        for _ in range(3):
            add(study)
        result = dump(study)
    elif command == "delete":
        optuna.delete_study(study_name=name, storage=storage)
        result = {}
    else:
        study = optuna.load_study(study_name=name, storage=storage)
        if command == "add-several":
            add_several(study)
        if command == "add":
            add(study)
        if command in ("dump", "add", "add-several"):
            result = dump(study)
        else:
            result = {"importances": full(study) if command == "full" else importances(study)}
    json.dump(result, sys.stdout, allow_nan=False)


if __name__ == "__main__":
    main()
