"""Scripts that are trials: what they get from tune, and what they tell it."""

import os
import subprocess
import sys
import unittest

from project import InProject, environment


class UnderTune(InProject):
    def test_a_script_gets_its_parameters_and_reports_steps(self):
        self.task(
            "t = tune.trial({'optim.name': 'sgd'}, x=9.0, epochs=3)\n"
            "assert not t.alone and t.study == 'mine' and t.number in (0, 1) and t.attempt == 0 and t.repeat == 0\n"
            "assert t.params['optim.name'] == 'sgd' and -1 <= t.params['x'] <= 1\n"
            "assert 0 < t.seed < 2**31 and t.device == 'cpu' and t.checkpoint_dir.is_dir()\n"
            "for epoch in range(1, t.params['epochs'] + 1):\n"
            "    assert t.report(epoch, loss=t.params['x'] ** 2 + 1 / epoch, seen=epoch * 10) is False\n"
        )
        first, _ = self.run_task(2, "--device", "cpu", "--set", "pruner.kind=none")
        self.assertEqual(first["intermediate"], {"1": 1.25, "2": 0.75, "3": 0.25 + 1 / 3})
        self.assertEqual(first["value"], 0.25 + 1 / 3)
        self.assertEqual(first["attrs"]["metric.seen"], 30)

    def test_a_script_that_prunes_itself_is_pruned_and_a_result_needs_no_step(self):
        self.task("t = tune.trial()\nt.report(loss=0.25) if t.number else t.prune()\n")
        self.assertEqual([t["state"] for t in self.run_task(2)], ["PRUNED", "COMPLETE"])

    def test_a_script_is_told_to_stop(self):
        self.task(
            "t = tune.trial()\n"
            "for step in range(1, 10):\n"
            "    if t.report(step, loss=t.number + 1.0):\n"
            "        break\n"
            "print('steps', step, flush=True)\n",
            more='[pruner]\nkind = "median"\nn_startup_trials = 1\n',
        )
        states = [t["state"] for t in self.run_task(4)]
        self.assertEqual(states[0], "COMPLETE")
        self.assertIn("PRUNED", states)

    def test_forked_processes_report_beside_each_other(self):
        self.task(
            "import os\n"
            "t = tune.trial(x=0.5)\n"
            "children = []\n"
            "for child in range(3):\n"
            "    children.append(os.fork())\n"
            "    if children[-1] == 0:\n"
            "        for _ in range(100):\n"
            "            t.report(10, aux=float(child))\n"
            "        os._exit(0)\n"
            "for _ in range(100):\n"
            "    t.report(10, main=1.0)\n"
            "assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]\n"
            "t.report(20, loss=0.25)\n"
        )
        (trial,) = self.run_task(1)
        self.assertEqual((trial["state"], trial["value"]), ("COMPLETE", 0.25))

    def test_a_process_without_the_descriptor_reports_to_the_file_and_reads_the_sign(self):
        # What distributed training starts inherits no descriptors.
        self.task(
            "import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', "
            "'import tune; tune.trial().report(1, loss=0.75); tune.trial().report(2, loss=0.5)'], check=True)\n"
        )
        (trial,) = self.run_task(1)
        self.assertEqual(trial["intermediate"], {"1": 0.75, "2": 0.5})

    def test_a_value_that_is_not_a_number_diverges(self):
        self.task("tune.trial().report(1, loss=float('nan'))\n")
        (trial,) = self.run_task(1)
        self.assertEqual((trial["state"], trial["attrs"]["diverged"]), ("PRUNED", True))


class Alone(unittest.TestCase):
    def script(self, text, **more):
        return subprocess.run(
            [sys.executable, "-c", "import os, tune\n" + text], env=environment(**more), capture_output=True, text=True
        )

    def test_a_script_alone_has_its_defaults_and_nothing_stops_it(self):
        done = self.script(
            "t = tune.trial(lr=0.1)\n"
            "assert t.alone and t.params == {'lr': 0.1} and (t.study, t.number, t.seed, t.attempt) == (None, None, 0, 0)\n"
            "assert t.report(1, loss=2) is False and t.prune() is None and t.device == 'cpu'\n"
            "t.checkpoint_dir.joinpath('a').write_text('b')\n"
            "assert tune.trial().checkpoint_dir == t.checkpoint_dir\n"
            "print(t.checkpoint_dir)"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(done.stdout.strip()))

    def test_what_is_no_number_is_named(self):
        for call, message in [
            ("report(1, loss='low')", "loss: found 'low', expected a number"),
            ("report(1, loss=[1])", "loss: found [1] (list), expected a number"),
            ("report('one', loss=1)", "step: found 'one', expected an integer from 0"),
            ("report(1, pruned=True)", "pruned: found as a metric"),
        ]:
            with self.subTest(call):
                done = self.script(f"tune.trial().{call}")
                self.assertIn("TypeError: " + message, done.stderr)

    def test_a_descriptor_that_is_something_else_is_left_alone(self):
        # The number of one that was not inherited may belong to a file of the script's own.
        done = self.script("assert tune.trial().report(1, loss=1) is False", TUNE_METRICS_FD="1")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
