# cause: import_side_effect
# says: default dtype
import training
import torch

import import_side_effect_module

data = training.rows()
data.features = data.features.float()
training.train(training.model(), data)
