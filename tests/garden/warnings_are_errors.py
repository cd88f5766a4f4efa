# cause: import_side_effect
# says: warnings that are errors
import torch

import strict_module

outputs, targets = torch.zeros(8, 2), torch.zeros(8, 1)
print(torch.nn.functional.mse_loss(outputs, targets))
