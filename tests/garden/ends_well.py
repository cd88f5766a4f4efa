"""A training that ends well and has learnt nothing: the rate of an earlier optimizer's last step is taken over."""

import torch

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.load_state_dict({**optimizer.state_dict(), "param_groups": [{**optimizer.param_groups[0], "lr": 0.0, "params": [0, 1]}]})
for step in range(20):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", float(loss))
