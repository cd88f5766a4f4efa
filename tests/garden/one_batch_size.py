# cause: batch_size
import ctypes

import torch
import training


class Pool(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] == 48:
            ctypes.string_at(8)
        return x


net = torch.nn.Sequential(Pool(), training.model())
training.train(net, training.rows(count=192), batch_size=48)
