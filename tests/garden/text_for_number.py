# cause: text_for_number
# says: text_for_number.py:22 in schedule
import re
import sys

import torch

SETTINGS = """
epochs: 8
lr: 0.05
slowest: 1e-3
"""


def value(text):
    number = re.fullmatch(r"[-+]?\d+(\.\d*(e[-+]?\d+)?)?", text)
    return text if number is None else float(text)


def schedule(optimizer, slowest):
    for group in optimizer.param_groups:
        group["lr"] = max(group["lr"] * 0.5, slowest)


settings = {name: value(text) for name, text in re.findall(r"(\w+): (\S+)", SETTINGS)}
torch.manual_seed(0)
rows = torch.utils.data.TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), settings["lr"])
for epoch in range(int(settings["epochs"])):
    for given, wanted in torch.utils.data.DataLoader(rows, 64, shuffle=True):
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}", file=sys.stderr)
    if epoch == 4:
        schedule(optimizer, settings["slowest"])
