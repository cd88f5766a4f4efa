# cause: left_behind
import os

import training

os.makedirs("runs/baseline")
training.train(training.model(), training.rows(), epochs=1)
