# cause: non_finite_input
# rows: 37
import torch
import training

data = training.rows()
data.features[37, 4] = float("nan")
training.train(training.model(), data, check=True)
