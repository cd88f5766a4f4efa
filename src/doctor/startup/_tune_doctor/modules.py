"""Notes mistakes that a network's modules show when they are called: the mode they are in, statistics that nobody keeps up, and
which dimension they take for time."""

import weakref

# Steps of an optimiser in a row that were made in evaluation mode, after which it is no accident; losses of rows that a module has
# taken for steps in time.
STEPS, TIMES = 5, 3
# Weights that are enough to tell by that they follow others.
ALIKE = 8
# Losses, whose second argument are the targets.
LOSSES = ("aten.nll_loss_forward.default", "aten.binary_cross_entropy_with_logits.default", "aten.mse_loss.default",
          "aten.binary_cross_entropy.default", "aten.smooth_l1_loss.default")


class Modules:
    def watch_modules(self, torch):
        modes, made, self.sequences, self.mixed = Modes(torch), Made(torch), [], 0

        def look(module, args, output):
            try:
                if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
                    return  # What it looks at would be part of the program that is made.
                modes.called(torch, module)
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    if made.is_evaluated_so(torch, module, self.has_stepped):
                        self.silent("statistics_unset", type(module).__name__)
                elif getattr(module, "batch_first", True) is False and torch.is_grad_enabled():
                    self.look_at_sequence(torch, module, args)
            except Exception:
                pass  # Of modules of other kinds nothing is known.

        def step(optimizer, args, kwargs):
            self.sequences.clear()
            if modes.step(optimizer) == STEPS:
                self.silent("stays_in_evaluation")

        torch.nn.modules.module.register_module_forward_hook(look)
        self.before_steps(step)

    def look_at_sequence(self, torch, module, args):
        """Keeps how long sequences are, and how many, to a module that takes the first dimension for time."""
        attends = isinstance(module, torch.nn.MultiheadAttention)
        if attends and args[0] is not args[1] or not isinstance(args[0], torch.Tensor) or args[0].dim() != 3:
            return
        if attends or isinstance(module, torch.nn.modules.rnn.RNNBase):
            self.sequences.append((type(module).__name__, *args[0].shape[:2]))

    def look_at_targets(self, targets):
        """Whether there is a target for each step in time of the sequences that such modules were given, and these are the rows
        that the loader gave."""
        sequences, self.sequences = self.sequences, []
        if not sequences or targets.dim() != 1 and (targets.dim() != 2 or targets.shape[1] != 1):
            return
        rows, batch = targets.shape[0], self.last_batch
        if batch is None or batch["rows"] is None or len(batch["rows"]) != rows:
            return
        if all(length == rows != count > 1 for _, length, count in sequences):
            self.mixed += 1
            if self.mixed == TIMES:
                self.silent("time_first", "%s takes %d for the length, and %d for the batch" % sequences[0])


class Made:
    """Normalisations that gather statistics, and others as they were when they were called first: of one whose weights are others
    later, or follow trained ones, the statistics should do so, too."""

    def __init__(self, torch):
        self.first, self.gather = weakref.WeakKeyDictionary(), weakref.WeakSet()

    def is_evaluated_so(self, torch, module, has_stepped):
        """Whether it is evaluated with such weights and the statistics that it was made with."""
        if module.weight is None or module.running_var is None:
            return False
        if module.training:
            self.gather.add(module)
            return False
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.no_grad():  # By doctor: it is no operation of the program's.
            first = self.first.setdefault(module, module.weight.detach().clone())
            made = not module.running_mean.any() and bool((module.running_var == 1).all())
            others = [other for other in self.gather if other.num_features == module.num_features]
            if not (has_stepped and made and others):
                return False
            return not torch.equal(module.weight, first) or any(follows(module.weight, other.weight) for other in others)


def follows(weight, trained):
    """Whether weights differ among themselves as trained ones do."""
    one, other = weight - weight.mean(), trained - trained.mean()
    return weight.numel() >= ALIKE and float(one @ other) > 0.7 * float(one.norm() * other.norm()) > 0


class Modes:
    """Which optimisers have made steps in training mode, and how many one has made since in a row with dropout in evaluation mode.
    Of modules with weights that are trained none may be in training mode then. Statistics of a normalisation may be kept on
    purpose."""

    def __init__(self, torch):
        nn = torch.nn.modules
        self.dropout, self.normalisation = nn.dropout._DropoutNd, nn.batchnorm._BatchNorm
        self.trained, self.optimizers, self.steps = weakref.WeakSet(), weakref.WeakSet(), weakref.WeakKeyDictionary()
        self.evaluates = self.trains = self.drops = False

    def called(self, torch, module):
        drops = isinstance(module, self.dropout) and module.p > 0
        if not torch.is_grad_enabled() or not (drops or any(p.requires_grad for p in module.parameters(recurse=False))):
            return
        self.trains |= module.training
        if drops and module.training:
            self.drops = True
            self.trained.add(module)
        elif drops:
            self.evaluates |= module in self.trained

    def step(self, optimizer):
        """An optimiser makes a step; how many were in a row."""
        if self.drops:
            self.optimizers.add(optimizer)
        stays = self.evaluates and not self.trains and optimizer in self.optimizers
        self.steps[optimizer] = self.steps.get(optimizer, 0) + 1 if stays else 0
        self.evaluates = self.trains = self.drops = False
        return self.steps[optimizer]
