# cause: index_out_of_range
# rows: 11
import torch
import training

data = training.rows()
data.features = torch.randint(0, 100, (128, 8))
data.features[11, 2] = 30522


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 16)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, tokens):
        return self.head(self.words(tokens).mean(dim=1))


training.train(Tagger(), data)
