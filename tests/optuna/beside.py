"""Works on a study beside tune, until standard input ends: asks, tells, enqueues, and now and then ends or
deletes a trial that it did not ask for, or gives the study another name. Prints a line once it begins to look for the study,
and at the end how often it did each.

    beside.py DATABASE STUDY SEED
"""

import collections
import json
import random
import sqlite3
import sys
import threading
import time

import optuna

TELL = optuna.trial.TrialState


def open_study(database, name, seed, ended):
    """The study, once tune has made it."""
    while not ended.is_set():
        try:
            return optuna.load_study(
                study_name=name,
                storage=f"sqlite:///{database}",
                sampler=optuna.samplers.RandomSampler(seed=seed),
            )
        except Exception:  # no file, no tables or no study yet
            time.sleep(0.02)
    return None


def delete(database, number):
    """Optuna deletes whole studies only; a script that cleans up does this.

    The last trial alone: Optuna numbers trials by counting those before, and would give a number twice.
    """
    last = "DELETE FROM trials WHERE number = ? AND number = (SELECT MAX(number) FROM trials)"
    with sqlite3.connect(database, timeout=10) as connection:
        return connection.execute(last, (number,)).rowcount


def rename(database, study, name):
    """Optuna knows no other name for a study either."""
    with sqlite3.connect(database, timeout=10) as connection:
        connection.execute("UPDATE studies SET study_name = ? WHERE study_id = ?", (name, study._study_id))


def act(study, database, mine, draw, done):
    """One thing that another program does."""
    kind = draw.random()
    if kind < 0.4:
        trial = study.ask()
        trial.suggest_float("optim.lr", 1e-5, 1.0, log=True)
        mine.append(trial)
        done["asked"] += 1
    elif kind < 0.8 and mine:
        trial = mine.pop(draw.randrange(len(mine)))
        if draw.random() < 0.5:
            trial.report(draw.random(), 1)
        if draw.random() < 0.3:
            study.tell(trial, state=TELL.FAIL)
        else:
            study.tell(trial, draw.random())
        done["told"] += 1
    elif kind < 0.88:
        study.enqueue_trial({"optim.lr": 10 ** draw.uniform(-5, 0)})
        done["enqueued"] += 1
    elif kind < 0.9:
        rename(database, study, f"renamed {draw.random()}")
        done["renamed"] += 1
    else:
        running = [t.number for t in study.get_trials(deepcopy=False) if t.state == TELL.RUNNING]
        theirs = [n for n in running if n not in {t.number for t in mine}]
        if theirs and kind < 0.95:
            study.tell(theirs[-1], state=TELL.FAIL)
            done["ended"] += 1
        elif theirs:
            done["deleted"] += delete(database, theirs[-1])


def main():
    database, name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    draw, done, mine = random.Random(seed), collections.Counter(), []
    print("ready", flush=True)
    study = open_study(database, name, seed, ended)
    while study is not None and not ended.is_set():
        try:
            act(study, database, mine, draw, done)
        except Exception as error:  # tune was faster, or holds the lock
            done[type(error).__name__] += 1
        ended.wait(draw.uniform(0.0, 0.05))
    print(json.dumps(done))


main()
