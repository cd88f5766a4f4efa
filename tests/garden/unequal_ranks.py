# cause: unequal_ranks
import os
import tempfile

import torch
import torch.distributed as group
import training

COUNT = 97


def work(rank, meeting):
    group.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=2)
    data = training.rows(count=COUNT)
    rows = list(range(rank, COUNT, 2))
    torch.manual_seed(0)
    model = training.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        right = torch.zeros(1)
        for start in range(0, len(rows), 8):
            features, labels = zip(*(data[row] for row in rows[start : start + 8]))
            scores = model(torch.stack(features))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores, torch.stack(labels)).backward()
            for weights in model.parameters():
                group.all_reduce(weights.grad)
            optimizer.step()
            right += (scores.argmax(1) == torch.stack(labels)).sum()
        group.all_reduce(right)
    group.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (os.path.join(folder, "meeting"),), nprocs=2)
