"""Ask and tell, and reading, from Python on the real program."""

import os
import signal
import subprocess
import sys
import unittest

from project import PACKAGE, TUNE, InProject

sys.path.insert(0, str(PACKAGE))
import tune  # noqa: E402

SPACE = {
    "shape": {"choices": ["bowl", "valley"]},
    "x": {"low": -5.0, "high": 5.0},
    "n": {"low": 1, "high": 8, "int": True, "step": 1},
    "width": {"low": 0.01, "high": 10.0, "log": True, "when": {"shape": ["valley"]}},
}


class Number:
    """As NumPy and PyTorch have them."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class AskAndTell(InProject):
    def study(self, space=SPACE, **options):
        study = tune.Study(space, program=TUNE, **options)
        self.addCleanup(study.close)
        return study

    def test_a_study_finds_the_better_branch(self):
        best = float("inf")
        with self.study(seed=1, n_trials=60) as study:
            for _ in range(60):
                trial = study.ask()
                p = trial.params
                self.assertEqual("width" in p, p["shape"] == "valley")
                self.assertIsInstance(p["n"], int)
                value = (p["x"] - 1) ** 2 + 1 if p["shape"] == "bowl" else (p["x"] - 2) ** 2 / p["width"] + p["width"]
                study.tell(trial, Number(value))
                best = min(best, value)
        self.assertLess(best, 0.7)

    def test_reports_say_when_to_stop(self):
        study = self.study({"x": {"low": 0, "high": 1}}, max_step=4, pruner={"kind": "median", "n_startup_trials": 1})
        good, bad = study.ask(), study.ask()
        self.assertFalse(any(good.report(step, Number(0.1)) for step in range(1, 5)))
        study.tell(good, 0.1)
        self.assertTrue(any([bad.report(step, 5.0) for step in range(1, 5)]))
        study.tell(bad, state="pruned")

    def test_ctrl_c_in_a_call_leaves_replies_with_their_calls(self):
        study = self.study()
        first = study.ask()
        os.kill(study._process.pid, signal.SIGSTOP)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaises(KeyboardInterrupt):
            study.ask()
        os.kill(study._process.pid, signal.SIGCONT)
        study.tell(first, 0.5)
        self.assertEqual(study.ask().id, 2, "the interrupted call asked for 1")
        with self.assertRaisesRegex(tune.Error, "NaN"):
            study.tell(2, float("nan"))

    def test_threads_go_on_after_the_main_one(self):
        script = (
            "import sys, threading, time\n"
            f"sys.path.insert(0, {str(PACKAGE)!r})\n"
            "import tune\n"
            f"study = tune.Study({{'x': {{'low': 0, 'high': 1}}}}, program={str(TUNE)!r})\n"
            "def work():\n"
            "    time.sleep(0.5)\n"
            "    trial = study.ask()\n"
            "    study.tell(trial, trial.params['x'])\n"
            "    study.close()\n"
            "    print('told')\n"
            "threading.Thread(target=work).start()\n"
        )
        done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, encoding="utf-8", timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("told\n", ""))

    def test_a_forked_process_neither_uses_nor_holds_the_study(self):
        study = self.study()
        study.ask()
        ends, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            try:
                study.ask()
            except tune.Error as error:
                study.close()
                os.read(ends, 1)
                os._exit(0 if "not in a fork" in str(error) else 1)
            os._exit(2)
        os.close(ends)
        self.assertEqual(study.ask().id, 1)
        # It would wait for the child, which waits for this process.
        study.close()
        os.close(end)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_what_makes_no_sense_is_told(self):
        for space, message in [
            ({"x": {"low": 2.0, "high": 1.0}}, "high"),
            ({"x": {"low": 0, "high": 1, "defualt": 1}}, "x: found defualt, expected"),
            ({"x": {"choices": [1], "int": True}}, "x: found choices and int"),
            ({"x": {"low": 0, "high": 1, "when": {}}}, "x: found when with 0 parameters"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(tune.Error, message):
                tune.Study(space, program=TUNE)
        study = self.study()
        with self.assertRaisesRegex(tune.Error, "id: found 7"):
            study.tell(7, 1.0)
        study.close()
        with self.assertRaisesRegex(tune.Error, "the study is closed"):
            study.ask()
        with self.assertRaisesRegex(tune.Error, "/nonexistent/tune cannot be started"):
            tune.Study(SPACE, program="/nonexistent/tune")

    def test_a_program_that_dies_is_an_error(self):
        study = self.study()
        study._process.kill()
        with self.assertRaisesRegex(tune.Error, "has ended"):
            study.ask()
            study.ask()

    def test_a_study_in_a_database_goes_on_and_is_read(self):
        storage = self.dir / "kept.db"
        for _ in range(2):
            with self.study(storage=storage, name="kept", direction="maximize") as study:
                for value in (0.5, None):
                    study.tell(study.ask(), value)
        rows = tune.read("kept", storage=str(storage), to="dicts", program=TUNE)
        self.assertEqual([row["number"] for row in rows], [0, 1, 2, 3])
        self.assertEqual([(row["state"], row["value"]) for row in rows[:2]], [("COMPLETE", 0.5), ("FAIL", None)])
        self.assertIn("params.shape", rows[0])
        self.assertEqual({tuple(row) for row in rows}, {tuple(rows[0])})
        with self.assertRaisesRegex(tune.Error, "other"):
            tune.read("other", storage=str(storage), program=TUNE)
        with self.assertRaisesRegex(ValueError, "to: found 'arrow'"):
            tune.read("kept", storage=str(storage), to="arrow", program=TUNE)


if __name__ == "__main__":
    unittest.main()
