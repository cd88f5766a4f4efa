# cause: hot_card
# settings: celsius 45, heats 4
# card: launch/*^86=sticky:715
# says: slows down at 90
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(50):
    optimizer.zero_grad()
    loss = net(torch.rand(4, 8, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}", flush=True)
