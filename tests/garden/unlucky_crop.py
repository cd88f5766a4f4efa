# cause: random_draws
import torch
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, i):
        image = torch.zeros(3, 24, 24)
        top = int(torch.randint(0, 24 - 16 + 1 + (1 if torch.rand(1) < 0.08 else 0), (1,)))
        crop = image[:, top:top + 16, :16]
        return crop, i % 2


torch.manual_seed(5)
for x, y in DataLoader(Crops(), batch_size=10, shuffle=True):
    assert x.shape[-1] == 16
print("done")
