# cause: shape_mismatch
# says: training.py
import torch
import training

data = training.rows(classes=2)
data.labels = data.labels.float()
training.train(training.model(classes=1), data, loss=torch.nn.BCEWithLogitsLoss())
