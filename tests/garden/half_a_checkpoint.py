# cause: broken_file
import io

import torch
import training

net = training.model()
whole = io.BytesIO()
torch.save(net.state_dict(), whole)
half = io.BytesIO(whole.getvalue()[:600])
net.load_state_dict(torch.load(half))
