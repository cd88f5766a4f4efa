# cause: native_code
# says: backward
import os

import torch
import training


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        os.abort()


class Layer(torch.nn.Module):
    def forward(self, x):
        return Scale.apply(x)


training.train(torch.nn.Sequential(training.model(), Layer()), training.rows())
