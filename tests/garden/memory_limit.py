# cause: host_memory
# memory: 8000000
import torch
import training


def collate(rows):
    return torch.zeros(len(rows), 120_000_000), torch.stack([label for _, label in rows])


training.train(training.model(), training.rows(count=32), epochs=1, collate_fn=collate)
