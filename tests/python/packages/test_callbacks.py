"""The callbacks in the real training loops, under the real program (pytest).

Each script trains twice: with a learning rate that works, to its end; and with one of next to nothing, which the pruner ends.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from project import InProject, environment  # noqa: E402

STEPS = 6

HEAD = """
import os, pathlib, tune.callbacks
t = tune.trial(lr=0.3)
lr = t.params["lr"]

def ended(steps):
    pathlib.Path(f"ended-{t.number}").write_text(str(steps))
"""

ROWS = """
import numpy
rows = numpy.random.default_rng(0).normal(size=(200, 4)).astype("float32")
truth = rows @ numpy.array([1, -2, 0.5, 0], dtype="float32")
"""


class Callbacks(InProject):
    def check(self, metric, script):
        """Two trials; the metrics of the first one."""
        self.task(
            HEAD + ROWS + script,
            space='lr = { choices = [0.3, 1e-5], default = 0.3 }',
            more='[sampler]\nkind = "grid"\n[pruner]\nkind = "median"\nn_startup_trials = 1\n',
            metric=metric,
        )
        trials = self.run_task(2, "--parallel", "1", "--device", "cpu")
        self.assertEqual([trial["state"] for trial in trials], ["COMPLETE", "PRUNED"], trials)
        good, bad = trials
        self.assertEqual([good["params"]["lr"], bad["params"]["lr"]], [0.3, 1e-5])
        self.assertEqual(list(good["intermediate"]), [str(step) for step in range(1, STEPS + 1)])
        values = list(good["intermediate"].values())
        self.assertLess(values[-1], values[0])
        self.assertEqual(good["value"], min(values))
        # The loop itself has ended early, in peace.
        self.assertEqual((self.dir / "ended-0").read_text(), str(STEPS))
        self.assertEqual((self.dir / "ended-1").read_text(), str(len(bad["intermediate"])))
        self.assertLess(len(bad["intermediate"]), STEPS)
        return good["attrs"]

    def test_xgboost(self):
        attrs = self.check(
            "valid.rmse",
            f"""
import xgboost
train, valid = xgboost.DMatrix(rows[:150], truth[:150]), xgboost.DMatrix(rows[150:], truth[150:])
model = xgboost.train({{"eta": lr, "nthread": 1}}, train, {STEPS}, evals=[(train, "train"), (valid, "valid")],
    callbacks=[tune.callbacks.xgboost(t)], verbose_eval=False)
ended(model.num_boosted_rounds())
""",
        )
        self.assertIn("metric.train.rmse", attrs)

    def test_lightgbm(self):
        self.check(
            "valid.l2",
            f"""
import lightgbm
train = lightgbm.Dataset(rows[:150], truth[:150])
valid = lightgbm.Dataset(rows[150:], truth[150:], reference=train)
model = lightgbm.train({{"learning_rate": lr, "num_threads": 1, "verbose": -1}}, train, {STEPS}, valid_sets=[valid],
    valid_names=["valid"], callbacks=[tune.callbacks.lightgbm(t)])
ended(model.current_iteration())
""",
        )

    def test_catboost(self):
        attrs = self.check(
            "validation.RMSE",
            f"""
import catboost
model = catboost.CatBoostRegressor(iterations={STEPS}, learning_rate=lr, thread_count=1, verbose=False, allow_writing_files=False)
model.fit(rows[:150], truth[:150], eval_set=(rows[150:], truth[150:]), callbacks=[tune.callbacks.catboost(t)], use_best_model=False)
ended(model.tree_count_)
""",
        )
        self.assertIn("metric.learn.RMSE", attrs)

    def test_keras(self):
        attrs = self.check(
            "val_loss",
            f"""
os.environ["KERAS_BACKEND"] = "torch"
import keras
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(lr / 10), "mse")
done = model.fit(rows, truth, validation_split=0.25, epochs={STEPS}, verbose=0, callbacks=[tune.callbacks.keras(t)])
ended(len(done.epoch))
""",
        )
        self.assertIn("metric.loss", attrs)

    def test_lightning(self):
        self.check(
            "val_loss",
            f"""
import lightning, torch
class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.epochs = torch.nn.Linear(4, 1), 0
    def loss(self, batch):
        return torch.nn.functional.mse_loss(self.layer(batch[0])[:, 0], batch[1])
    def training_step(self, batch, at):
        return self.loss(batch)
    def validation_step(self, batch, at):
        self.log("val_loss", self.loss(batch))
    def on_train_epoch_end(self):
        self.epochs += 1
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=lr / 10)
data = torch.utils.data.TensorDataset(torch.tensor(rows), torch.tensor(truth))
data = torch.utils.data.DataLoader(data, batch_size=50)
line = Line()
torch.manual_seed(0)
trainer = lightning.Trainer(max_epochs={STEPS}, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, callbacks=[tune.callbacks.lightning(t)])
trainer.fit(line, data, data)
ended(line.epochs)
""",
        )

    def test_transformers(self):
        attrs = self.check(
            "eval_loss",
            f"""
import torch, transformers
config = transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
transformers.set_seed(0)
model = transformers.BertForSequenceClassification(config)
data = [{{"input_ids": [1 + i % 2] * 8, "labels": i % 2}} for i in range(64)]
args = transformers.TrainingArguments(output_dir="out", num_train_epochs={STEPS}, learning_rate=lr / 30, eval_strategy="epoch",
    save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, per_device_train_batch_size=32)
trainer = transformers.Trainer(model, args, train_dataset=data, eval_dataset=data, callbacks=[tune.callbacks.transformers(t)])
trainer.train()
trainer.evaluate()
ended(round(trainer.state.epoch))
""",
        )
        self.assertIn("metric.eval_samples_per_second", attrs)

    def test_alone_nothing_is_reported_and_nothing_ends(self):
        script = HEAD + ROWS + (
            "import lightgbm\n"
            "train = lightgbm.Dataset(rows, truth)\n"
            "model = lightgbm.train({'verbose': -1}, train, 4, valid_sets=[train], callbacks=[tune.callbacks.lightgbm()])\n"
            "assert model.current_iteration() == 4\n"
        )
        done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_processes_that_train_one_model_report_once_and_stop_together(self):
        (self.dir / "ranks.py").write_text(
            "import os, sys, torch, tune.callbacks\n"
            "class Stops:\n"
            "    told = 0\n"
            "    def report(self, step, **metrics):\n"
            "        self.told += 1\n"
            "        return step == 3\n"
            "torch.distributed.init_process_group('gloo')\n"
            "leads, trial = torch.distributed.get_rank() == 0, Stops()\n"
            "reports = tune.callbacks._Reports(trial)\n"
            "stops = [reports.tell(step, {'loss': 1.0}, leads) for step in (1, 2, 3)]\n"
            "assert stops == [False, False, True], stops\n"
            "assert trial.told == (3 if leads else 0)\n"
            "torch.distributed.destroy_process_group()\n"
        )
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(self.dir / "ranks.py")]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
