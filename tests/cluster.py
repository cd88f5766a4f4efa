"""`tune submit` on a real Slurm cluster, and on a real HyperQueue (make test-cluster).

    tests/cluster.py TUNE [HQ_PYTHON]

Run by root on a machine with Debian's slurm-wlm, munge and postgresql. Slurm's daemons run here (tests/slurm.sh), jobs as an
ordinary user. HQ_PYTHON is a Python that has the package hyperqueue: the script runs as its tasks. The package is without the
command `hq`; where that is on the path, too, `tune submit` itself gives it the job.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USER = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
NODES = 3


class Cluster:
    def __init__(self):
        self.process = subprocess.Popen(
            ["sh", os.path.join(ROOT, "tests/slurm.sh"), str(NODES)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.config = self.process.stdout.readline().strip()
        if not self.config:
            sys.exit(self.process.wait())
        os.environ["SLURM_CONF"] = self.config

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Project:
    """A directory that all nodes share, and PostgreSQL's beside it."""

    def __init__(self, tune):
        self.dir = tempfile.mkdtemp(prefix="tune-cluster.")
        os.mkdir(self.dir + "/configs")
        shutil.copy(ROOT + "/configs/synthetic.toml", self.dir + "/configs/")
        shutil.copy(tune, self.dir + "/tune")
        subprocess.run(["chown", "-R", "postgres:postgres", self.dir], check=True)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.dir, "TUNE_TORCH_LIBRARY": "none",
            "SLURM_CONF": os.environ["SLURM_CONF"]}

    def run(self, *words, check=True, **more):
        command = USER + [self.dir + "/tune", "-C", self.dir, *words]
        return subprocess.run(command, env={**self.environment, **more}, cwd=self.dir, check=check,
                              capture_output=True, text=True)

    def submit(self, study, trials, *more, on="slurm"):
        return self.run("submit", "synthetic", "--study", study, "--trials", str(trials), "--on", on,
                        "--nodes", str(NODES), "--with-postgres", self.dir + "/pg", *more)

    def started(self, study, seconds=60):
        """Waits until trials of the study have ended."""
        wait("trials", lambda: self.finished(study) > 2, seconds)

    def server(self):
        with open(self.dir + "/pg/url") as url:
            return {"TUNE_STORAGE": url.read().strip(), "PGPASSFILE": self.dir + "/pg/pgpass"}

    def finished(self, study):
        try:
            answer = self.run("status", study, "--json", check=False, **self.server())
            return json.loads(answer.stdout)["finished"]
        except (OSError, ValueError, KeyError):
            return 0

    def whole(self, study, goal):
        """Looks at a study that is over, on a server that is started again for it."""
        postgres = sorted(os.listdir("/usr/lib/postgresql"), key=int)[-1]
        ctl = f"/usr/lib/postgresql/{postgres}/bin/pg_ctl"
        options = ["-D", self.dir + "/pg/data", "-w"]
        start = ["start", "-l", self.dir + "/pg/log", "-o", "-p 20999 -c unix_socket_directories="]
        subprocess.run(USER + [ctl, *options, *start], check=True, stdout=subprocess.DEVNULL)
        try:
            server = {"TUNE_STORAGE": "postgresql://tune@localhost:20999/studies",
                      "PGPASSFILE": self.dir + "/pg/pgpass"}
            trials = json.loads(self.run("trials", study, "--json", **server).stdout)
            nodes = json.loads(self.run("nodes", study, "--json", **server).stdout)["nodes"]
        finally:
            subprocess.run(USER + [ctl, *options, "stop"], check=True, stdout=subprocess.DEVNULL)
        ended = [t for t in trials if t["state"] in ("COMPLETE", "PRUNED")]
        assert len(ended) == goal and len(trials) == goal, (len(ended), len(trials))
        assert sorted(t["number"] for t in trials) == list(range(goal)), "a number twice, or none"
        # One whose database was gone before it could tell of its end is lost.
        assert not any(node["state"] == "working" and node["exit"] is None and node["trials"] for node in nodes), nodes
        return nodes

    def logs(self, study):
        for at in range(1, NODES + 1):
            with open(f"{self.dir}/tune.db.d/submitted/{study}-{at}.log") as log:
                print(f"--- {study}-{at}\n{log.read()}", file=sys.stderr)


def wait(what, until, seconds):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.5)


def slurm(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def ended():
    return not slurm("squeue", "-h").strip()


def states():
    lines = slurm("scontrol", "-o", "show", "job").splitlines()
    return {word.split("=")[1] for line in lines for word in line.split() if word.startswith("JobState=")}


def goal(project):
    """Three nodes reach the goal together, and the database stops in order."""
    project.submit("goal", 40, "--set", "task.step_ms=60", "--set", "run.repeats=3", "--time", "10m")
    wait("the jobs' end", ended, 120)
    nodes = project.whole("goal", 40)
    assert len(nodes) == NODES and all(node["exit"] == 0 for node in nodes), nodes
    assert states() == {"COMPLETED"}, states()
    assert os.stat(project.dir + "/pg/pgpass").st_mode & 0o777 == 0o600
    assert not os.path.exists(project.dir + "/pg/url")


def cancelled(project):
    """A job that is cancelled is gone on with by the next one."""
    more = ["--set", "task.step_ms=100", "--set", "storage.lease=20s"]
    project.submit("cancelled", 60, *more)
    project.started("cancelled")
    slurm("scancel", "-u", "postgres")
    wait("the jobs' end", ended, 60)
    project.submit("cancelled", 60, *more)
    wait("the jobs' end", ended, 180)
    project.whole("cancelled", 60)


def lost_node(project):
    """A node goes down: Slurm queues its task again, and its trials run elsewhere."""
    # Its return takes minutes: others must not be through before.
    project.submit("lost", 60, "--set", "task.step_ms=150", "--set", "storage.lease=10s")
    project.started("lost")
    slurm("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    time.sleep(15)
    # It may have come back by itself.
    subprocess.run(["scontrol", "update", "NodeName=n2", "State=RESUME"], check=False, capture_output=True)
    wait("the jobs' end", ended, 400)
    project.whole("lost", 60)


def limit(project):
    """A time limit: trials are put back before it, and the tasks run again until the goal is reached."""
    project.submit("limit", 60, "--set", "task.step_ms=250", "--set", "supervisor.checkpoint=true",
                   "--set", "storage.lease=20s", "--", "--time=2", "--signal=B:TERM@95")
    wait("the jobs' end", ended, 600)
    nodes = project.whole("limit", 60)
    assert "TIMEOUT" not in states(), states()
    runs = [open(f"{project.dir}/tune.db.d/submitted/limit-{at}.log").read() for at in range(1, NODES + 1)]
    assert any("run the same command again" in text for text in runs), "nobody was told to leave"
    assert nodes


def hyperqueue(project, python):
    """The script as tasks of HyperQueue."""
    text = project.run("submit", "synthetic", "--study", "hq", "--trials", "40", "--on", "hyperqueue",
                       "--nodes", str(NODES), "--with-postgres", project.dir + "/pg", "--time", "10m",
                       "--set", "task.step_ms=60", "--dry-run").stdout
    script = project.dir + "/hq.sh"
    with open(script, "w") as file:
        file.write(text)
    tasks = f"""
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    for _ in range({NODES}):
        cluster.start_worker(WorkerConfig(cores=1))
    client = cluster.client()
    job = Job()
    for at in range(1, {NODES} + 1):
        job.program(["bash", {script!r}], env={{"HQ_TASK_ID": str(at), "HQ_JOB_ID": "1"}},
                    stdout={project.dir!r} + f"/hq-{{at}}.log", stderr={project.dir!r} + f"/hq-{{at}}.err")
    client.wait_for_jobs([client.submit(job)])
"""
    subprocess.run(USER + [python, "-c", tasks], check=True, env=project.environment, cwd=project.dir,
                   timeout=180)
    nodes = project.whole("hq", 40)
    assert len(nodes) == NODES and all(node["exit"] == 0 for node in nodes), nodes


class HyperQueue:
    """A server, and workers that may be stopped, as the project's user."""

    def __init__(self, project):
        self.project, self.running = project, []
        project.environment["HQ_SERVER_DIR"] = project.dir + "/hq-server"
        self.start("server", "start")
        wait("the server", lambda: self.hq("server", "info", check=False).returncode == 0, 30)

    def start(self, *words):
        log = open(f"{self.project.dir}/hq-{words[0]}-{len(self.running)}.log", "w")
        self.running.append(subprocess.Popen(USER + ["hq", *words], env=self.project.environment, cwd=self.project.dir,
                                             stdout=log, stderr=log))

    def hq(self, *words, check=True):
        return subprocess.run(USER + ["hq", *words], env=self.project.environment, cwd=self.project.dir, check=check,
                              capture_output=True, text=True)

    def workers(self, count):
        for _ in range(count):
            self.start("worker", "start", "--cpus=1")
        wait("workers", lambda: len(json.loads(self.hq("worker", "list", "--output-mode=json").stdout)) >= count, 30)

    def end(self):
        self.hq("server", "stop", check=False)
        for program in self.running:
            program.wait(30)


def by_hq(project):
    """`tune submit` calls `hq`; a worker that is stopped under way loses nothing."""
    queue = HyperQueue(project)
    try:
        queue.workers(NODES)
        more = ["--time", "10m", "--set", "task.step_ms=100", "--set", "storage.lease=10s"]
        project.submit("byhq", 60, *more, on="hyperqueue")
        project.started("byhq")
        # The first node has the database.
        queue.hq("worker", "stop", str(NODES))
        queue.workers(1)
        queue.hq("job", "wait", "all")
        counts = json.loads(queue.hq("job", "list", "--all", "--output-mode=json").stdout)[0]["task_stats"]
        assert counts["finished"] == NODES and not counts["failed"], counts
    finally:
        queue.end()
    project.whole("byhq", 60)


def main():
    tune, *hq = sys.argv[1:]
    cluster = Cluster()
    try:
        for scenario in [goal, cancelled, lost_node, limit]:
            start = time.monotonic()
            project = Project(tune)
            try:
                scenario(project)
            except BaseException:
                project.logs(scenario.__name__ if scenario is not lost_node else "lost")
                raise
            print(f"{scenario.__name__}: passed in {time.monotonic() - start:.0f} s", flush=True)
            shutil.rmtree(project.dir)
        if hq:
            project = Project(tune)
            hyperqueue(project, hq[0])
            print("hyperqueue: passed", flush=True)
            shutil.rmtree(project.dir)
        if shutil.which("hq"):
            project = Project(tune)
            by_hq(project)
            print("by_hq: passed", flush=True)
            shutil.rmtree(project.dir)
    finally:
        cluster.end()


main()
