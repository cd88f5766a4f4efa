# cause: non_finite_input
# rows: 37
import torch
import training
from torch.utils.data import DataLoader

data = training.rows()
data.features[37, 4] = float("nan")
model = training.model()
training.train(model, data)

# Long after the row, and at rows that are sound.
model.eval()
for features, _ in DataLoader(training.rows(count=32), batch_size=16):
    print([round(100 * share.item()) for share in model(features).softmax(1)[:, 0]])
