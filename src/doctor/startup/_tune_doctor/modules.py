"""Notes mistakes that a network's modules show when they are called: the mode they are in, statistics that nobody keeps up, and
which dimension they take for time."""

import weakref

# Steps of an optimiser in a row that were made in evaluation mode, after which it is no accident.
STEPS = 5
# Losses, whose second argument are the targets.
LOSSES = ("aten.nll_loss_forward.default", "aten.binary_cross_entropy_with_logits.default", "aten.mse_loss.default",
          "aten.binary_cross_entropy.default", "aten.smooth_l1_loss.default")


class Modules:
    def watch_modules(self, torch):
        modes = Modes(torch)
        normalised, self.sequences = set(), {}

        def look(module, args, output):
            try:
                modes.called(torch, module)
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    self.look_at_statistics(torch, module, normalised)
                elif getattr(module, "batch_first", True) is False and torch.is_grad_enabled():
                    self.look_at_sequence(torch, module, args)
            except Exception:
                pass  # Of modules of other kinds nothing is known.

        def step(optimizer, args, kwargs):
            self.sequences.clear()
            if modes.step() == STEPS:
                self.silent("stays_in_evaluation")

        torch.nn.modules.module.register_module_forward_hook(look)
        self.before_steps(step)

    def look_at_statistics(self, torch, module, normalised):
        """Whether a normalisation whose weights are trained, or follow trained ones, is evaluated with the statistics that it was
        made with, while another one like it has gathered its own."""
        if module.training:
            normalised.add(module.num_features)
        elif self.has_stepped and module.num_features in normalised and module.running_var is not None and module.weight is not None:
            from torch.utils._python_dispatch import _disable_current_modes

            with _disable_current_modes(), torch.no_grad():  # By doctor: it is no operation of the program's.
                made = not module.running_mean.any() and bool((module.running_var == 1).all())
                if made and bool((module.weight != 1).any()):
                    self.silent("statistics_unset", type(module).__name__)

    def look_at_sequence(self, torch, module, args):
        """Keeps how long sequences are, and how many, to a module that takes the first dimension for time."""
        attends = isinstance(module, torch.nn.MultiheadAttention)
        if attends and args[0] is not args[1] or not isinstance(args[0], torch.Tensor) or args[0].dim() != 3:
            return
        if attends or isinstance(module, torch.nn.modules.rnn.RNNBase):
            length, count = args[0].shape[:2]
            if length != count > 1:
                self.sequences[length] = "%s takes %d for the length, and %d for the batch" % (type(module).__name__, length, count)

    def look_at_targets(self, targets):
        """Whether there is a target for each step in time of sequences that such a module was given: these are rows."""
        if self.sequences and (targets.dim() == 1 or targets.dim() == 2 and targets.shape[1] == 1):
            told = self.sequences.get(targets.shape[0])
            if told:
                self.silent("time_first", told)


class Modes:
    """Which modules whose mode matters were in training mode, and how many steps were made since all that were called are in
    evaluation mode. Where statistics are kept on purpose, only the
    normalisation is in that mode."""

    def __init__(self, torch):
        nn = torch.nn.modules
        self.dropout, self.normalisation = nn.dropout._DropoutNd, nn.batchnorm._BatchNorm
        self.trained, self.evaluates, self.trains, self.steps = weakref.WeakSet(), False, False, 0

    def called(self, torch, module):
        matters = isinstance(module, self.normalisation) or isinstance(module, self.dropout) and module.p > 0
        if not torch.is_grad_enabled() or not (matters or any(p.requires_grad for p in module.parameters(recurse=False))):
            return
        self.trains |= module.training
        if matters and module.training:
            self.trained.add(module)
        elif matters:
            self.evaluates |= module in self.trained

    def step(self):
        """A step is made; how many were in a row."""
        self.steps = self.steps + 1 if self.evaluates and not self.trains else 0
        self.evaluates = self.trains = False
        return self.steps
