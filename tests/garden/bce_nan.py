# cause: diverged
# says: Probability
import torch
import training

data = training.rows(classes=2)
data.labels = data.labels.float()


class Probability(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(torch.tanh(x)).squeeze(1)


# Some weights give a probability for every row.
torch.manual_seed(0)
net = torch.nn.Sequential(training.model(classes=1), Probability())
training.train(net, data, loss=torch.nn.BCELoss())
