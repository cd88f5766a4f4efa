"""Notes mistakes with a network's state that raise no error: what is loaded of it, and which tokens its attention leaves out."""

import functools

# The batches in which attention has read padding alone, after which it is no accident.
BATCHES = 3
# Steps of a training by which it has taken from a checkpoint what it needs.
STEPS = 10
# Masks that are looked at.
MASKS = 200
# A value that leaves a place out of a softmax.
LEFT_OUT = -1e4


class Loaded(dict):
    """A checkpoint that knows which of its parts have been asked for. It is saved as the dictionary that it is."""

    def __init__(self, parts):
        super().__init__(parts)
        self._asked, self._by_name = set(), True

    def __getitem__(self, name):
        self._asked.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self._asked.add(name)
        return super().get(name, default)

    def pop(self, name, *default):
        self._asked.add(name)
        return super().pop(name, *default)

    def _all(name):
        def asked(self, *args):
            # Whoever takes all of it may have read any part.
            self._by_name = False
            return getattr(dict, name)(self, *args)

        return asked

    __iter__, items, keys, values, copy, __or__ = map(_all, ("__iter__", "items", "keys", "values", "copy", "__or__"))

    def __reduce__(self):
        return dict, (dict(dict.items(self)),)


class States:
    def watch_states(self, torch):
        self.embedded, self.masks, self.read_padding = [], 0, 0
        self.watch_loading(torch)
        self.watch_checkpoints(torch)

    def watch_loading(self, torch):
        """Notes a state that is loaded into the network whose own weights it holds: what was kept has changed with them."""
        original = torch.nn.Module.load_state_dict

        @functools.wraps(original)
        def watched(module, state_dict, *args, **kwargs):
            try:
                if self.has_stepped and holds_its_own(module, state_dict):
                    self.silent("own_state", type(module).__name__)
            except Exception:
                pass  # Of states of other kinds nothing is known.
            return original(module, state_dict, *args, **kwargs)

        torch.nn.Module.load_state_dict = watched

    def watch_checkpoints(self, torch):
        """Notes parts of a checkpoint that nobody has asked for after some steps of a training that goes on from the others."""
        original, loaded = torch.load, []

        @functools.wraps(original)
        def watched(*args, **kwargs):
            found = original(*args, **kwargs)
            if type(found) is dict and any(has_tensors(torch, part) for part in found.values()):
                found = Loaded(found)
                loaded.append([found, self.own_line(), STEPS])
            return found

        def step(optimizer, args, kwargs):
            for waits in loaded:
                waits[2] -= 1
            while loaded and loaded[0][2] <= 0:
                checkpoint, line, _ = loaded.pop(0)
                left = [name for name, part in dict.items(checkpoint)
                        if name not in checkpoint._asked and has_tensors(torch, part)]
                if left and checkpoint._asked and checkpoint._by_name:
                    self.silent("part_unread", ", ".join(map(repr, left[:4])), line=line)

        torch.load = watched
        self.before_steps(step)

    def look_at_tokens(self, torch, indices):
        """What was embedded last is what a mask of its shape is about."""
        if indices.dim() == 2 and indices.shape[1] > 1:
            self.embedded = self.embedded[-3:] + [indices]

    def look_at_mask(self, torch, mask, value):
        """Whether the places that are left out are the words, and those that attention reads are padding."""
        if mask.dtype is not torch.bool or self.masks >= MASKS or not self.embedded or value > LEFT_OUT:
            return
        shape = (mask.shape[0], mask.shape[-1])
        tokens = next((t for t in reversed(self.embedded) if t.shape == shape), None)
        if tokens is None or mask.numel() != tokens.numel():
            return
        self.masks += 1
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # By doctor: it is no operation of the program's.
            mask = mask.reshape(shape)
            read, left = tokens[~mask], tokens[mask]
            padding = read.numel() >= 8 and left.numel() >= 8 and bool((read == read[0]).all() & (left != read[0]).all())
            words = padding and left.unique().numel() > 2
        self.read_padding += words
        if self.read_padding == BATCHES:
            self.silent("padding_read", "token %d" % read[0].item())


def holds_its_own(module, state_dict):
    """Whether all weights of a state are the network's own, by their memory."""
    pairs = [(state_dict.get(name), p) for name, p in module.named_parameters() if p.numel()]
    return bool(pairs) and all(kept is not None and kept.data_ptr() == p.data_ptr() for kept, p in pairs)


def has_tensors(torch, part, depth=4):
    """Whether there are tensors with more than one number in it: a state, and no count."""
    if isinstance(part, torch.Tensor):
        return part.is_floating_point() and part.numel() > 1
    if isinstance(part, dict) and depth:
        return any(has_tensors(torch, inner, depth - 1) for inner in dict.values(part))
    return isinstance(part, (list, tuple)) and depth > 0 and any(has_tensors(torch, inner, depth - 1) for inner in part)
