"""Four nodes in network namespaces on one study, and what a network and a server do to them (make test-partition).

    tests/partition.py TUNE OPTUNA_PYTHON [EVENTS [SEED]]

Run by root, with Debian's iproute2, nftables and postgresql. Each node is a `tune` in a namespace of its own, with a project of
its own. Links are cut for less and for more than a lease, a tenth of the packets is dropped, connections are ended by the server,
it is restarted and its disk is full, nodes are killed and suspended, while Optuna asks and tells into the same study.
At the end all is healed and the goal is reached: no trial lost, none trained to its end twice, no number twice.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER = "10.77.0.254"
URL = f"postgresql://postgres@{SERVER}/studies"
NODES = 4
LEASE = 4

OPTUNA = """
import sys, time, random, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
url = sys.argv[1].replace("postgresql:", "postgresql+psycopg2:")
told = 0
while True:
    try:
        study = optuna.load_study(study_name="synthetic", storage=url, sampler=optuna.samplers.RandomSampler())
        while True:
            trial = study.ask()
            trial.suggest_float("optim.lr", 1e-5, 1.0, log=True)
            time.sleep(0.3)
            study.tell(trial, random.random() + 3)
            told += 1
            print(told, flush=True)
    except KeyboardInterrupt:
        raise SystemExit
    except Exception as error:
        print("again:", type(error).__name__, flush=True)
        time.sleep(1)
"""


def do(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


class Server:
    """A server whose files are on a small disk of its own."""

    def __init__(self):
        self.disk = tempfile.mkdtemp(prefix="tune-disk.")
        do("mount", "-t", "tmpfs", "-o", "size=500m,mode=1777", "tmpfs", self.disk)
        self.process = subprocess.Popen(
            ["sh", ROOT + "/tests/postgres.sh", f"listen_addresses={SERVER}", "max_wal_size=64MB"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": self.disk})
        self.socket = self.process.stdout.readline().strip()
        self.sql("postgres", "ALTER ROLE postgres PASSWORD 'secret'")
        with open(self.socket + "/data/pg_hba.conf", "a") as hba:
            hba.write("host all all 10.77.0.0/24 scram-sha-256\n")
        self.sql("postgres", "SELECT pg_reload_conf()")
        self.sql("postgres", "CREATE DATABASE studies")

    def sql(self, database, text):
        return do("psql", "-qAtX", "-h", self.socket, "-U", "postgres", database, "-c", text).strip()

    def restart(self, seconds):
        self.process.stdin.write(f"restart {seconds}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def fill(self, seconds):
        full = self.disk + "/full"
        with open(full, "wb") as file:
            try:
                while True:
                    file.write(b"\0" * (1 << 20))
            except OSError:
                pass
        time.sleep(seconds)
        os.remove(full)
        try:
            self.sql("studies", "SELECT 1")
        except subprocess.CalledProcessError:
            # Without room for its log it may have given up.
            self.restart(0)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        do("umount", self.disk)
        os.rmdir(self.disk)


class Node:
    def __init__(self, tune, at):
        self.name, self.tune = f"n{at}", tune
        self.inner, self.outer = f"tune-n{at}", f"tune-v{at}"
        do("ip", "netns", "add", self.inner)
        do("ip", "link", "add", self.outer, "type", "veth", "peer", "name", "eth", "netns", self.inner)
        do("ip", "link", "set", self.outer, "master", "tune-br", "up")
        self.inside("ip", "addr", "add", f"10.77.0.{at}/24", "dev", "eth")
        self.inside("ip", "link", "set", "eth", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.dir = tempfile.mkdtemp(prefix="tune-node.")
        os.mkdir(self.dir + "/configs")
        shutil.copy(ROOT + "/configs/synthetic.toml", self.dir + "/configs/")
        self.process = None

    def inside(self, *words):
        return do("ip", "netns", "exec", self.inner, *words)

    def start(self, trials):
        environment = {**os.environ, "TUNE_NODE": self.name, "PGPASSWORD": "secret", "TUNE_TORCH_LIBRARY": "none"}
        self.log = open(self.dir + "/log", "a")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.inner, self.tune, "-C", self.dir, "synthetic", "--trials", str(trials),
             "--storage", URL, "--parallel", "2", "--plain", "--sampler", "random", "--pruner", "none", "--set",
             "task.step_ms=100", "--set", f"storage.lease={LEASE}s"],
            env=environment, stdout=self.log, stderr=self.log)

    def again(self, trials):
        """Starts it anew where it has given up, as its engine would."""
        if self.process.poll() is not None:
            self.start(trials)

    def cut(self, seconds):
        do("ip", "link", "set", self.outer, "down")
        time.sleep(seconds)
        do("ip", "link", "set", self.outer, "up")

    def lossy(self, seconds):
        table = f"tune_{self.name}"
        do("nft", f"add table netdev {table}; add chain netdev {table} in "
                  f"{{ type filter hook ingress device {self.outer} priority 0; }}; "
                  f"add rule netdev {table} in numgen random mod 10 == 0 drop")
        time.sleep(seconds)
        do("nft", f"delete table netdev {table}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def suspend(self, seconds):
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["ip", "netns", "del", self.inner], check=False)
        shutil.rmtree(self.dir)


def check(server, goal):
    ask = lambda text: int(server.sql("studies", f"SELECT COUNT(*) FROM {text}"))
    ours = "trials t JOIN tune_trials o ON o.trial_id = t.trial_id"
    wrong = {
        "numbers twice": ask("(SELECT number FROM trials GROUP BY number HAVING COUNT(*) > 1) x"),
        "numbers out of order": ask("(SELECT number, ROW_NUMBER() OVER (ORDER BY trial_id) - 1 n FROM trials) x "
                                    "WHERE x.n <> x.number"),
        "trials lost": ask(f"{ours} WHERE t.state NOT IN ('COMPLETE', 'PRUNED')"),
        "trials trained to the end twice": ask(
            "(SELECT trial_id FROM tune_attempts WHERE outcome IN ('completed', 'pruned') "
            "GROUP BY trial_id HAVING COUNT(*) > 1) x"),
        "ended trials without such an attempt": ask(
            f"{ours} WHERE NOT EXISTS (SELECT 1 FROM tune_attempts a WHERE a.trial_id = t.trial_id "
            "AND a.outcome IN ('completed', 'pruned'))"),
        "trials whose holder did not train them": ask(
            f"{ours} WHERE NOT EXISTS (SELECT 1 FROM tune_attempts a WHERE a.trial_id = t.trial_id "
            "AND a.outcome IN ('completed', 'pruned') AND a.run_id = o.run_id)"),
        "open attempts": ask("tune_attempts WHERE ended IS NULL"),
        "trials that failed": ask(f"{ours} WHERE t.state = 'FAIL'"),
    }
    assert not any(wrong.values()), wrong
    finished = ask("trials WHERE state IN ('COMPLETE', 'PRUNED')")
    assert finished >= goal, (finished, goal)
    again = ask("tune_attempts WHERE outcome = 'interrupted'")
    return finished, ask(ours), again


def main():
    tune, optuna, *rest = sys.argv[1:]
    events, seed = (int(word) for word in (rest + ["200", "1"][len(rest):]))
    generator = random.Random(seed)
    do("ip", "link", "add", "tune-br", "type", "bridge")
    do("ip", "addr", "add", f"{SERVER}/24", "dev", "tune-br")
    do("ip", "link", "set", "tune-br", "up")
    nodes, server, script = [], Server(), None
    counts = {}
    try:
        nodes = [Node(os.path.abspath(tune), at) for at in range(1, NODES + 1)]
        endless = 1_000_000
        for node in nodes:
            node.start(endless)
        while True:
            try:
                if int(server.sql("studies", "SELECT COUNT(*) FROM tune_attempts")) > NODES:
                    break
            except subprocess.CalledProcessError:
                pass
            time.sleep(0.5)
        script = subprocess.Popen([optuna, "-c", OPTUNA, URL], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "PGPASSWORD": "secret"})
        kinds = ["cut short"] * 4 + ["cut long"] * 3 + ["lossy"] * 3 + ["end connection"] * 6 + ["kill"] * 3 + \
            ["suspend"] * 2 + ["restart"] * 2 + ["fill"]
        for at in range(events):
            for node in nodes:
                node.again(endless)
            kind, node = generator.choice(kinds), generator.choice(nodes)
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "cut short":
                node.cut(generator.uniform(0.2, LEASE / 2))
            elif kind == "cut long":
                node.cut(generator.uniform(LEASE * 1.2, LEASE * 2))
            elif kind == "lossy":
                node.lossy(3)
            elif kind == "end connection":
                server.sql("studies", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                      "WHERE application_name = 'tune' ORDER BY random() LIMIT 1")
            elif kind == "kill":
                node.kill()
                time.sleep(generator.uniform(0, LEASE * 1.5))
            elif kind == "suspend":
                node.suspend(LEASE * 1.5)
            elif kind == "restart":
                server.restart(1)
            elif kind == "fill":
                server.fill(2)
            time.sleep(generator.uniform(0, 1))
            if at % 20 == 19:
                print(f"{at + 1} events", flush=True)
        script.send_signal(signal.SIGINT)
        said = script.communicate()[0].split("\n")
        told = max((int(line) for line in said if line.isdigit()), default=0)
        for node in nodes:
            node.again(endless)
        time.sleep(LEASE)
        for node in nodes:
            # A second one puts back what runs.
            node.process.send_signal(signal.SIGINT)
        codes = [node.process.wait() for node in nodes]
        goal = int(server.sql("studies", "SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')")) + 20
        for node in nodes:
            node.start(goal)
        ends = [node.process.wait(timeout=120) for node in nodes]
        assert ends == [0] * NODES, (codes, ends)
        finished, ours, again = check(server, goal)
        print(f"{events} events {counts}; {finished} trials, {ours} of them ours, {told} told by Optuna, "
              f"{again} attempts interrupted: none lost, none twice", flush=True)
    except BaseException:
        for node in nodes:
            print("---", node.name, open(node.dir + "/log").read()[-3000:], file=sys.stderr)
        raise
    finally:
        if script is not None and script.poll() is None:
            script.kill()
        for node in nodes:
            node.end()
        server.end()
        do("ip", "link", "del", "tune-br")


main()
