# cause: bad_row
# hides: Input and output sizes should be greater than 0
# says: row 90 of the whole dataset
import torch
import training
from torch.utils.data import Subset

WIDTHS = [6 + row % 5 for row in range(128)]
WIDTHS[90] = 0
labels = training.rows().labels
crops = training.Rows([torch.ones(1, 1, 4, width) for width in WIDTHS], labels)


def batch(rows):
    try:
        wide = [torch.nn.functional.interpolate(crop, (4, 8)).flatten() for crop, _ in rows]
    except Exception:
        raise RuntimeError("cannot build a batch of %d crops" % len(rows)) from None
    return torch.stack(wide), torch.stack([label for _, label in rows])


order = torch.randperm(len(crops), generator=torch.Generator().manual_seed(7)).tolist()
part = Subset(crops, [row for row in order if row % 8 != 0])
training.train(training.model(width=32), part, collate_fn=batch, num_workers=2)
