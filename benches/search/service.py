"""A sampler that serves the ask-tell protocol, and one run of it on one function."""
import json
import os
import subprocess
import tempfile
import time

from functions import check_point, draw, stream

# One thread for everybody: CPU time is compared, and several runs may go on at a time.
ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
}


class ServiceError(Exception):
    """The sampler answered with an error, or ended."""


class Service:
    """A process that speaks docs/ask-tell.md; `cpu` is what it has used since `init` was answered, in seconds."""

    def __init__(self, command, init):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        # Linux's clock of another process: all its threads, user and system.
        self.clock = (~self.process.pid << 3) | 2
        self.name = self.call(op="init", protocol=1, direction="minimize", **init)["name"]
        self.started = time.clock_gettime(self.clock)

    def call(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            raise ServiceError(f"ended at {request['op']}: {self.log.read()[-2000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise ServiceError(f"{request['op']}: {reply['error']}")
        return reply

    def cpu(self):
        return time.clock_gettime(self.clock) - self.started

    def close(self):
        # The end of its input ends it; SMAC then removes its directory.
        try:
            self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        except BrokenPipeError:
            self.process.wait()
        self.log.close()


class Random:
    """Random search inside of this process, behind the same calls."""

    def __init__(self, function, seed):
        self.space = function.space
        self.rng = stream("random", function.name, seed)
        self.asked = 0
        self.name = "random"

    def call(self, op, **_):
        if op == "ask":
            self.asked += 1
            return {"id": self.asked - 1, "params": draw(self.space, self.rng)}
        return {"prune": False, "ok": True}

    def cpu(self):
        return 0.0

    def close(self):
        pass


class Run:
    """One run: who is best after how many evaluations (for curves: after how many times `max_step` steps)."""

    def __init__(self, function, service, seed, parallel, evals):
        self.function = function
        self.service = service
        self.noise = stream("noise", function.name, seed)
        self.parallel = parallel
        self.evals = evals
        self.observed = float("inf")
        self.trace = []
        self.cpu = {}
        self.asks = 0
        self.pruned = 0

    def ask(self):
        reply = self.service.call(op="ask")
        check_point(self.function.space, reply["params"])
        self.asks += 1
        return reply["id"], reply["params"]

    def observe(self, value):
        return value + self.noise.gauss(0, self.function.noise) if self.function.noise else value

    def finished(self, spent, observed, value):
        """A trial has its final value; the incumbent is the best of what was observed."""
        if observed < self.observed:
            self.observed = observed
            self.trace.append((spent, value))

    def cut(self):
        """A trial was pruned."""
        self.pruned += 1

    def measure(self, spent):
        for budget in (50, 100, 200):
            if spent >= budget and budget not in self.cpu:
                self.cpu[budget] = (self.service.cpu(), self.asks)

    def points(self):
        """Without curves: as many trials as run at a time, the oldest one is told, one is asked for."""
        running = []
        for told in range(self.evals):
            while len(running) < self.parallel and told + len(running) < self.evals:
                running.append(self.ask())
            number, params = running.pop(0)
            value = self.function.value(params)
            observed = self.observe(value)
            self.service.call(op="tell", id=number, value=observed, state="ok")
            self.finished(told + 1, observed, value)
            self.measure(told + 1)

    def curves(self):
        """With curves: the running trials go one step each in turn, and the budget is counted in steps."""
        total = self.evals * self.function.max_step
        running, spent = [], 0
        while spent < total:
            while len(running) < self.parallel:
                number, params = self.ask()
                running.append((number, self.function.curve(params), 0))
            going = []
            for number, curve, step in running:
                step += 1
                spent += 1
                budget = spent / self.function.max_step
                seen = self.observe(curve[step - 1])
                prune = self.service.call(op="report", id=number, step=step, value=seen)["prune"]
                # A trial at its last step is complete, whatever the answer to the last report.
                if step == self.function.max_step:
                    self.service.call(op="tell", id=number, value=seen, state="ok")
                    self.finished(budget, seen, curve[-1])
                elif prune:
                    self.service.call(op="tell", id=number, value=seen, state="pruned")
                    self.cut()
                else:
                    going.append((number, curve, step))
                self.measure(budget)
                if spent == total:
                    break
            running = going


def run(sampler, function, seed, parallel, evals):
    """Runs `sampler` (a `samplers.Sampler`) and returns what is kept of it."""
    began = time.monotonic()
    if sampler.command is None:
        service = Random(function, seed)
    else:
        service = Service(
            sampler.command_for(parallel),
            {"seed": seed, "n_evals": evals, "max_step": function.max_step, "space": function.space,
             **sampler.init},
        )  # fmt: skip
    try:
        going = Run(function, service, seed, parallel, evals)
        going.curves() if function.max_step else going.points()
    finally:
        service.close()
    return {
        "sampler": sampler.name, "version": sampler.version, "says": service.name,
        "function": function.name, "revision": function.revision, "seed": seed, "parallel": parallel,
        "evals": evals, "trace": going.trace,
        "cpu": {str(budget): [round(cpu, 4), asks] for budget, (cpu, asks) in going.cpu.items()},
        "trials": going.asks, "pruned": going.pruned, "wall": round(time.monotonic() - began, 2),
    }  # fmt: skip
