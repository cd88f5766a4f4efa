# cause: non_finite_input
import torch
import training
from torch.utils.data import IterableDataset


class Stream(IterableDataset):
    """Rows that have no number, as those of a file that is read line by line."""

    def __iter__(self):
        for index, (features, label) in enumerate(training.rows()):
            yield features / (index - 53), label


training.train(training.model(), Stream(), shuffle=False, check=True)
