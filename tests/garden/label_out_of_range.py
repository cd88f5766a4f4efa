# cause: label_out_of_range
# rows: 90
import training

data = training.rows()
data.labels[90] = 3
training.train(training.model(), data)
