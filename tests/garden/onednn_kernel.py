# cause: onednn_kernel
# says: convolution_backward
import torch
import training


class Narrow(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))


net = Narrow(
    torch.nn.Conv2d(1, 4, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.Conv2d(4, 16, 1, stride=2),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(16, 3),
).to(memory_format=torch.channels_last)
pictures = torch.randn(128, 1, 80, 80, generator=torch.Generator().manual_seed(5))
training.train(net, training.Rows(pictures, training.rows().labels))
