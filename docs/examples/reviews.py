"""Which sentences of product reviews are clearly negative: TF-IDF and a linear model, by scikit-learn."""
import csv
import os
import pickle

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupShuffleSplit

from tune_trial import params, report

p = params(alpha=1e-4, ngrams=2, min_df=2, balance=True, epochs=5)
rows = list(csv.DictReader(open("../../configs/data/reviews.csv")))
texts, labels = [r["text"] for r in rows], [int(r["status"]) for r in rows]
# The split is the same in all trials, and sentences of one review stay together.
split = GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=0)
train, validation = next(split.split(texts, labels, groups=[r["review"] for r in rows]))

vectorizer = TfidfVectorizer(ngram_range=(1, p["ngrams"]), min_df=p["min_df"])
features = vectorizer.fit_transform([texts[i] for i in train])
targets = [labels[i] for i in train]
unseen, truth = vectorizer.transform([texts[i] for i in validation]), [labels[i] for i in validation]

# An earlier attempt of this trial may have been cut short: go on from its checkpoint.
checkpoint = os.path.join(os.environ.get("TUNE_CHECKPOINT_DIR", "."), "model.pickle")
model, done = SGDClassifier("log_loss", alpha=p["alpha"], random_state=0), 0
if "TUNE_CHECKPOINT_DIR" in os.environ and os.path.exists(checkpoint):
    model, done = pickle.load(open(checkpoint, "rb"))

weights = [3.0 if p["balance"] and t else 1.0 for t in targets]
for epoch in range(done + 1, p["epochs"] + 1):
    model.partial_fit(features, targets, classes=[0, 1], sample_weight=weights)
    macro_f1 = f1_score(truth, model.predict(unseen), average="macro")
    print(f"epoch {epoch}: macro_f1={macro_f1:.4f}")
    if report(step=epoch, macro_f1=macro_f1):
        break
    if "TUNE_CHECKPOINT_DIR" in os.environ:
        pickle.dump((model, epoch), open(checkpoint + ".new", "wb"))
        os.replace(checkpoint + ".new", checkpoint)
