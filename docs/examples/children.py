"""Leaves processes behind, as loaders of data do: one in its group, one that has left it (setsid) and
its parents. None of them outlives the trial."""
import subprocess

from tune_trial import params, report

p = params(x=0.5)
subprocess.Popen(["sleep", "100000.5"])
subprocess.Popen(["sh", "-c", "setsid sleep 100000.5 &"]).wait()
report(loss=(p["x"] - 0.3) ** 2)
