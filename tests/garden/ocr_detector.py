# cause: tf32_kernel
# card: launch/*col2im*$NVIDIA_TF32_OVERRIDE!0=sticky:715
# says: convolution_backward
"""A text detector: an encoder, a decoder that joins two scales, and a head for regions, their borders and a
differentiable binarisation (DB); Dice, BCE and masked L1 as losses. The way back through a convolution dies on a card
with TF32."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Pages(Dataset):
    """Grey pages of 56 x 56 with a few bright bars as lines of text."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        page = 0.1 * torch.rand(1, 56, 56, generator=generator)
        region = torch.zeros(1, 56, 56)
        for _ in range(3):
            top, left = torch.randint(4, 40, (2,), generator=generator).tolist()
            region[:, top : top + 6, left : left + 12] = 1
        return page + region, region


class Detector(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU())
        self.lateral = nn.Conv2d(2 * width, width, 1)
        self.region, self.border = nn.Conv2d(width, 1, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, pages):
        fine = self.stem(pages)
        coarse = self.lateral(self.down(fine))
        joined = fine + functional.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
        return self.region(joined), self.border(joined)


def loss_of(region, border, truth):
    share, limit = torch.sigmoid(region), torch.sigmoid(border)
    binary = torch.sigmoid(50 * (share - limit))
    dice = 1 - 2 * (binary * truth).sum() / (binary.sum() + truth.sum() + 1e-6)
    masked = ((limit - 0.7 * truth).abs() * truth).sum() / (truth.sum() + 1e-6)
    return dice + 5 * functional.binary_cross_entropy_with_logits(region, truth) + 10 * masked


def main():
    torch.manual_seed(0)
    model = Detector().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for pages, truth in DataLoader(Pages(), batch_size=4, shuffle=True, num_workers=2):
        region, border = model(pages.cuda())
        loss = loss_of(region, border, truth.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
