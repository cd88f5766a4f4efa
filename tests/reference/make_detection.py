"""Writes tests/reference/detection.safetensors: the maps of a text detector as PyTorch computes them, with losses and
gradients. Weights and pictures are waves that both sides make by themselves, so that the file stays small; of each gradient
it has the product with a wave. The class DbNet is also the one that loads what `tune export` writes. Needs torch 2.11; run
it in tests/reference.
"""

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

BLOCKS = {"resnet18": (1, [2, 2, 2, 2]), "resnet34": (1, [3, 4, 6, 3]), "resnet50": (4, [3, 4, 6, 3])}


class Block(nn.Module):
    """torchvision's BasicBlock or, with four times as many channels behind it, Bottleneck; by the same names."""

    def __init__(self, expansion, channels, width, stride):
        super().__init__()
        out = width * expansion
        if expansion == 1:
            plan = [(channels, width, 3, stride), (width, width, 3, 1)]
        else:
            plan = [(channels, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        self.depth = len(plan)
        for at, (a, b, kernel, step) in enumerate(plan, 1):
            setattr(self, f"conv{at}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{at}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        for at in range(1, self.depth + 1):
            x = getattr(self, f"bn{at}")(getattr(self, f"conv{at}")(x))
            x = F.relu(x) if at < self.depth else x
        return F.relu(x + around)


class Encoder(nn.Module):
    def __init__(self, name, width):
        super().__init__()
        expansion, blocks = BLOCKS[name]
        first = 2 * max(2, round(32 * width))
        self.conv1 = nn.Conv2d(3, first, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        channels, self.channels = first, []
        for at, count in enumerate(blocks):
            stage = []
            for block in range(count):
                inner = first << at
                stage.append(Block(expansion, channels, inner, 2 if at and not block else 1))
                channels = inner * expansion
            setattr(self, f"layer{at + 1}", nn.Sequential(*stage))
            self.channels.append(channels)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        taps = []
        for at in range(4):
            x = getattr(self, f"layer{at + 1}")(x)
            taps.append(x)
        return taps


class Neck(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1, bias=False) for c in channels)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width // 4, 3, padding=1, bias=False) for _ in channels)

    def forward(self, taps):
        x, maps = None, []
        for tap, lateral, smooth in list(zip(taps, self.lateral, self.smooth))[::-1]:
            y = lateral(tap)
            x = y if x is None else y + F.interpolate(x, size=y.shape[2:], mode="nearest")
            maps.append(F.interpolate(smooth(x), size=taps[0].shape[2:], mode="nearest"))
        return torch.cat(maps, 1)


class MapHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = width // 4
        self.conv = nn.Conv2d(width, inner, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.double1 = nn.ConvTranspose2d(inner, inner, 2, 2, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.double2 = nn.ConvTranspose2d(inner, 1, 2, 2)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv(x)))
        return self.double2(F.relu(self.norm2(self.double1(x))))


class DbNet(nn.Module):
    """Pictures [B, H, W, 3] of 0 to 255 to the logits of probability and threshold, [B, 1, H, W]."""

    def __init__(self, backbone, width, fpn_width):
        super().__init__()
        self.encoder = Encoder(backbone, width)
        self.neck = Neck(self.encoder.channels, fpn_width)
        self.head = nn.ModuleDict({"probability": MapHead(fpn_width), "threshold": MapHead(fpn_width)})

    def forward(self, pictures):
        mean = torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1)
        deviation = torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1)
        x = (pictures.permute(0, 3, 1, 2).float() - mean) / deviation
        x = self.neck(self.encoder(x))
        return self.head["probability"](x), self.head["threshold"](x)


def losses(maps, shrunk, mask, threshold, threshold_mask, ratio=3.0, k=50.0, gamma=2.0, alpha=0.25):
    """Formulas of the paper and of docTR, by themselves, with a sort where ours selects."""
    logits, other = maps[0].squeeze(1), maps[1].squeeze(1)
    p, t = torch.sigmoid(logits), torch.sigmoid(other)
    each = F.binary_cross_entropy_with_logits(logits, shrunk, reduction="none")
    inside, outside = shrunk * mask, (1 - shrunk) * mask
    count = int(min(max(int(ratio * int(inside.sum())), int(outside.sum()) // 1000), int(outside.sum())))
    worst = torch.sort((each * outside).flatten(), descending=True)[0][:count]
    balanced = ((each * inside).sum() + worst.sum()) / (inside.sum() + count + 1e-6)
    right = torch.where(shrunk > 0, p, 1 - p)
    scale = torch.where(shrunk > 0, torch.full_like(p, alpha), torch.full_like(p, 1 - alpha))
    focal = ((1 - right) ** gamma * each * scale * mask).sum() / (mask.sum() + 1e-6)
    l1 = ((t - threshold).abs() * threshold_mask).sum() / (threshold_mask.sum() + 1e-6)
    binary = torch.sigmoid(k * (p - t)) * mask
    dice = 1 - 2 * (binary * shrunk * mask).sum() / (binary.sum() + (shrunk * mask).sum() + 1e-6)
    return {"balanced": balanced, "focal": focal, "threshold": l1, "binary": dice}


def wave(count, pace):
    return torch.sin(torch.arange(count, dtype=torch.float64) * pace + 0.3)


def labels(size, texts):
    """Two pages: one with texts, where `texts`, and one with an ignored region and none."""
    shrunk, mask = torch.zeros(2, size, size), torch.ones(2, size, size)
    threshold, threshold_mask = torch.full((2, size, size), 0.3), torch.zeros(2, size, size)
    mask[1, 4:20, 8:50] = 0
    if texts:
        shrunk[0, 10:20, 5:40] = 1
        threshold[0, 6:24, 2:44] = 0.6
        threshold_mask[0, 6:24, 2:44] = 1
    return shrunk, mask, threshold, threshold_mask


def main():
    size, tensors = 64, {}
    pictures = ((wave(2 * size * size * 3, 0.7371) + 1) * 127).round().view(2, size, size, 3).to(torch.uint8)
    for name in ["resnet18", "resnet50"]:
        model = DbNet(name, 1 / 16, 8)
        for at, parameter in enumerate(model.parameters()):
            values = wave(parameter.numel(), 1.1 + 0.0137 * at).view(parameter.shape)
            fan = parameter[0].numel() if parameter.dim() > 1 else 0
            values = values * (2 / fan) ** 0.5 if fan else 0.2 * values + (1 if at % 3 else 0)
            parameter.data.copy_(values.float())
        model.train()
        maps = model(pictures)
        thinned = [m.detach()[..., ::4, ::4].contiguous() for m in maps]
        tensors[f"{name}.probability"], tensors[f"{name}.threshold"] = thinned
        for texts in [True, False]:
            found = losses(maps, *labels(size, texts))
            case = f"{name}.{'texts' if texts else 'none'}"
            for loss, value in found.items():
                gradients = torch.autograd.grad(value, list(model.parameters()), retain_graph=True, allow_unused=True)
                products = [
                    0.0 if g is None else float((g.double().flatten() * wave(g.numel(), 0.917)).sum()) for g in gradients
                ]
                norms = [0.0 if g is None else float(g.double().norm()) for g in gradients]
                tensors[f"{case}.{loss}"] = value.detach().reshape(1)
                tensors[f"{case}.{loss}.products"] = torch.tensor(products)
                tensors[f"{case}.{loss}.norms"] = torch.tensor(norms)
        model.eval()
        with torch.no_grad():
            tensors[f"{name}.evaluated"] = model(pictures)[0][..., ::4, ::4].contiguous()
    save_file(tensors, "detection.safetensors")


if __name__ == "__main__":
    main()
