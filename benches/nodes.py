"""Trials a second of several nodes on one PostgreSQL server, beside Optuna's own workers on the same server.

    benches/nodes.py TUNE OPTUNA_PYTHON [TRIALS [MILLISECONDS [NODES]]]

Trials of one epoch of no length: what is measured is the book-keeping. Server, nodes and workers share this machine, so the
ratio within one run is the figure. Rates are taken between the 20th and the 80th percentile of the trials' ends, without starts.
With MILLISECONDS a proxy stands between, as a network would, that holds bytes back for so long each way. NODES: `1,4`, for one.
"""

import os
import shutil
import socket as sockets
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

OPTUNA = """
import sys, random, optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState
optuna.logging.set_verbosity(optuna.logging.ERROR)
def objective(trial):
    trial.suggest_float("lr", 1e-5, 1.0, log=True)
    trial.suggest_categorical("name", ["adam", "sgd", "rmsprop"])
    trial.suggest_int("layers", 1, 8)
    trial.suggest_int("width", 16, 512, log=True)
    trial.report(random.random(), 1)
    return random.random()
study = optuna.create_study(study_name=sys.argv[2], storage=sys.argv[1].replace("postgresql:", "postgresql+psycopg2:"),
                            sampler=optuna.samplers.RandomSampler(), load_if_exists=True)
study.optimize(objective, callbacks=[MaxTrialsCallback(int(sys.argv[3]), states=(TrialState.COMPLETE,))])
"""


def hold_back(taken, given, seconds):
    try:
        while data := taken.recv(1 << 16):
            time.sleep(seconds)
            given.sendall(data)
    except OSError:
        pass
    for end in (taken, given):
        try:
            end.shutdown(sockets.SHUT_RDWR)
        except OSError:
            pass  # The other direction has ended it.


def proxy(socket, seconds):
    """The port of a proxy for the server's socket that holds bytes back for so long."""
    listener = sockets.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            client, _ = listener.accept()
            client.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            server = sockets.socket(sockets.AF_UNIX)
            server.connect(socket + "/.s.PGSQL.5432")
            for ends in ((client, server), (server, client)):
                threading.Thread(target=hold_back, args=(*ends, seconds), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def server_seconds(socket):
    """Processor time of all of the server's processes so far, those that have ended included."""
    with open(socket + "/data/postmaster.pid") as file:
        pid = int(file.readline())
    ticks = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(entry) == pid:
            ticks += sum(int(n) for n in fields[11:15])
        elif int(fields[1]) == pid:
            ticks += sum(int(n) for n in fields[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    tune, python, *rest = sys.argv[1:]
    trials = int(rest[0]) if rest else 2000
    milliseconds = float(rest[1]) if len(rest) > 1 else 0
    counts = [int(count) for count in rest[2].split(",")] if len(rest) > 2 else [1, 4, 16, 64]
    server = subprocess.Popen(["sh", ROOT + "/tests/postgres.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    socket = server.stdout.readline().strip()
    sql = lambda database, text: subprocess.run(["psql", "-qAtX", "-h", socket, "-U", "postgres", database, "-c", text],
                                                check=True, capture_output=True, text=True).stdout.strip()
    sql("postgres", "CREATE DATABASE studies")
    url = f"postgresql://postgres@/studies?host={socket}"
    if milliseconds:
        url = f"postgresql://postgres@127.0.0.1:{proxy(socket, milliseconds / 1000)}/studies"
    tune = shutil.copy(tune, tempfile.mkdtemp(prefix="tune-bench."))
    environment = {**os.environ, "TUNE_TORCH_LIBRARY": "none"}

    def rate(study):
        """Trials a second."""
        ends = "EXTRACT(EPOCH FROM datetime_complete)"
        within = f"percentile_cont(ARRAY[0.2, 0.8]) WITHIN GROUP (ORDER BY {ends})"
        at = sql("studies", f"SELECT 0.6 * COUNT(*) / (({within})[2] - ({within})[1]) FROM trials t JOIN studies s USING (study_id) "
                            f"WHERE study_name = '{study}' AND state = 'COMPLETE'")
        return float(at)

    def measure(study, programs):
        before = server_seconds(socket)
        running = [start() for start in programs]
        codes = [program.wait() for program in running]
        assert not any(codes), codes
        spent = server_seconds(socket) - before
        return rate(study), 1000 * spent / int(sql("studies", "SELECT COUNT(*) FROM trials JOIN studies USING (study_id) "
                                                              f"WHERE study_name = '{study}'"))

    print("nodes  tune/s  server ms/trial   Optuna/s  server ms/trial   ratio")
    for nodes in counts:
        dirs = [tempfile.mkdtemp(prefix="tune-bench.") for _ in range(nodes)]

        def node(at):
            os.mkdir(dirs[at] + "/configs")
            shutil.copy(ROOT + "/configs/synthetic.toml", dirs[at] + "/configs/")
            return subprocess.Popen(
                [tune, "-C", dirs[at], "synthetic", "--study", f"tune-{nodes}", "--trials", str(trials), "--storage", url,
                 "--sampler", "random", "--pruner", "none", "--epochs", "1", "--quiet", "--set", "supervisor.recycle_after=100000"],
                env={**environment, "TUNE_NODE": f"n{at}"}, stdout=subprocess.DEVNULL)

        ours = measure(f"tune-{nodes}", [lambda at=at: node(at) for at in range(nodes)])
        few = max(100, trials // 8)
        study = f"optuna-{nodes}"
        subprocess.run([python, "-c", OPTUNA, url, study, "0"], check=False, env=environment, capture_output=True)
        theirs = measure(study, [lambda: subprocess.Popen([python, "-c", OPTUNA, url, study, str(few)], env=environment)] * nodes)
        print(f"{nodes:5}  {ours[0]:6.0f}  {ours[1]:15.1f}   {theirs[0]:8.1f}  {theirs[1]:15.1f}   {ours[0] / theirs[0]:5.1f}",
              flush=True)
        for directory in dirs:
            shutil.rmtree(directory)
    server.stdin.close()
    server.wait()


main()
