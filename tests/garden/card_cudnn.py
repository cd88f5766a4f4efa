# cause: cudnn_kernel
# card: launch/cudnn_convolution_backward*=sticky:700
# says: torch.backends.cudnn.enabled = False
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 1, 3)).cuda()
for step in range(5):
    loss = net(torch.rand(2, 1, 8, 8, device="cuda")).square().mean()
    loss.backward()
    print(f"step {step}: loss {loss.item():.3f}", flush=True)
