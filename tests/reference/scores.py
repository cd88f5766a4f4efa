"""What scikit-learn makes of the answers in src/training/scores_tests.rs.

    python tests/reference/scores.py        # scikit-learn 1.7.2

prints the numbers that stand there.
"""

import numpy as np
from sklearn import metrics as m

TWO = (
    [[0.5, -0.5], [2, 1], [-1, 1], [0.25, 0.25], [3, -3], [-0.5, 0.5], [1, 0], [-2, 2], [0, 1], [40, -40], [1, 3]],
    [0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1],
)
THREE = (
    [[2, 1, 0], [0.5, 0.5, -1], [0, 3, 1], [1, 0, 2], [-1, -1, 2], [0, 1, 0], [1, 1, 1], [0.5, 2, 1.5], [2, 0, 2],
     [0, 0, 3], [4, 1, 0], [1, 2, 3], [0, -1, 1]],
    [0, 1, 1, 2, 2, 2, 0, 1, 0, 1, 0, 2, 2],
)


def scores(logits, truth):
    logits, truth = np.array(logits, dtype=np.float64), np.array(truth)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    answer, classes = p.argmax(1), list(range(p.shape[1]))
    two = len(classes) == 2
    score, known = (p[:, 1], truth) if two else (p, np.eye(len(classes), dtype=int)[truth])
    yield "macro_f1", m.f1_score(truth, answer, average="macro", labels=classes)
    yield "f1", m.f1_score(truth, answer, average="binary" if two else "weighted")
    yield "accuracy", m.accuracy_score(truth, answer)
    yield "balanced_accuracy", m.balanced_accuracy_score(truth, answer)
    yield "mcc", m.matthews_corrcoef(truth, answer)
    yield "auroc", m.roc_auc_score(known, score, average="macro")
    yield "auprc", m.average_precision_score(known, score, average="macro")
    yield "log_loss", m.log_loss(truth, p, labels=classes)
    yield "loss", -np.log(p[np.arange(len(truth)), truth]).mean()
    for row in zip(*m.precision_recall_fscore_support(truth, answer, labels=classes)):
        yield "class", tuple(float(x) for x in row)


for name, case in [("TWO", TWO), ("THREE", THREE)]:
    print(name)
    for metric, value in scores(*case):
        print(f'    ("{metric}", {value}),')
