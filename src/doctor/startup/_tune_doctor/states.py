"""Notes mistakes with a network's state that raise no error: what is loaded of it, and which tokens its attention leaves out."""

import functools
import weakref

# The batches in which attention has read padding alone, after which it is no accident.
BATCHES = 3
# Masks that are looked at.
MASKS = 200
# A value that leaves a place out of a softmax.
LEFT_OUT = -1e4
# Steps of a training by which it has taken from a checkpoint what it needs.
STEPS = 10
# Checkpoints that are looked at: a program that loads more reads its rows so.
CHECKPOINTS = 4
# What is saved whole is told if it is so many times as large as the parts that are meant, and larger by so many bytes; of so many
# saves, and of so many values in each.
TIMES, BYTES, SAVES, VALUES = 4, 1 << 20, 20, 10_000


class Checkpoint:
    """Which parts of a checkpoint have been used, by the addresses of their tensors as long as these are there."""

    def __init__(self, torch, parts, line):
        self.line, self.steps, self.resumed = line, 0, False
        self.addresses = {}
        for name, part in parts.items():
            for tensor in tensors_in(torch, part):
                self.addresses.setdefault(tensor.data_ptr(), []).append((name, weakref.ref(tensor)))
        self.left = {name for parts in self.addresses.values() for name, _ in parts}

    def used(self, address):
        self.left -= {name for name, tensor in self.addresses.get(address, ()) if tensor() is not None}


class States:
    def watch_states(self, torch):
        self.embedded, self.masks, self.read_padding = [], 0, 0
        self.checkpoints, self.stepped_to = [], {}
        self.watch_loading(torch)
        self.watch_checkpoints(torch)
        self.watch_saving(torch)

    def watch_loading(self, torch):
        """Notes a state that is loaded into the network whose own weights it holds: what was kept has changed with them."""
        original = torch.nn.Module.load_state_dict

        @functools.wraps(original)
        def watched(module, state_dict, *args, **kwargs):
            try:
                if self.holds_what_was_trained(module, state_dict):
                    self.silent("own_state", type(module).__name__)
                self.takes(torch, state_dict)
            except Exception:
                pass  # Of states of other kinds nothing is known.
            return original(module, state_dict, *args, **kwargs)

        torch.nn.Module.load_state_dict = watched

        def stepped(optimizer, args, kwargs):
            parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            self.stepped_to.update((id(p), p._version) for p in parameters[:64])

        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:  # Before PyTorch 2.0.
            return
        register_optimizer_step_post_hook(stepped)

    def holds_what_was_trained(self, module, state_dict):
        """Whether all weights of a state are the network's own, by their memory, and were changed by an optimiser last: what
        changes them in place on purpose changes them here, too."""
        pairs = [(state_dict.get(name), p) for name, p in module.named_parameters() if p.numel()]
        own = bool(pairs) and all(kept is not None and kept.data_ptr() == p.data_ptr() for kept, p in pairs)
        trained = [self.stepped_to[id(p)] == p._version for _, p in pairs if id(p) in self.stepped_to]
        return own and bool(trained) and all(trained)

    def watch_checkpoints(self, torch):
        """Notes a part of a checkpoint that a training does not use although it goes on from it: its optimiser's state is
        loaded."""
        load, of_optimizer = torch.load, torch.optim.Optimizer.load_state_dict
        lines = set()

        @functools.wraps(load)
        def watched(*args, **kwargs):
            found = load(*args, **kwargs)
            try:
                line = self.main and self.own_line()
                # A line that loads again and again reads rows.
                self.checkpoints = [seen for seen in self.checkpoints if seen.line != line]
                if line and line not in lines and type(found) is dict and len(lines) < CHECKPOINTS:
                    lines.add(line)
                    self.checkpoints.append(Checkpoint(torch, found, line))
            except Exception:
                pass  # Of files of other kinds nothing is known.
            return found

        @functools.wraps(of_optimizer)
        def resumed(optimizer, state_dict):
            before = [len(seen.left) for seen in self.checkpoints]
            self.takes(torch, state_dict)
            for seen, parts in zip(self.checkpoints, before):
                seen.resumed |= len(seen.left) < parts
            return of_optimizer(optimizer, state_dict)

        def step(optimizer, args, kwargs):
            for seen in self.checkpoints:
                seen.steps += 1
                if seen.steps == STEPS and seen.resumed and seen.left:
                    self.silent("part_unread", ", ".join(sorted(map(repr, seen.left))[:4]), line=seen.line)
            self.checkpoints = [seen for seen in self.checkpoints if seen.steps < STEPS]

        # Both names: a loader's processes that are spawned are sent the function by the second.
        torch.load = torch.serialization.load = watched
        torch.optim.Optimizer.load_state_dict = resumed
        self.before_steps(step)

    def watch_saving(self, torch):
        """Notes parts of tensors that are saved: with each its whole storage goes into the file."""
        save, saves = torch.save, [0]

        @functools.wraps(save)
        def watched(obj, *args, **kwargs):
            saves[0] += 1
            try:
                tensors = all_tensors_in(torch, obj) if saves[0] <= SAVES else []
                storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
                whole, parts = sum(storages.values()), sum(t.numel() * t.element_size() for t in tensors)
                if whole > max(TIMES * parts, parts + BYTES):
                    self.silent("saved_whole", "%.1f MB for %.1f MB" % (whole / 1e6, parts / 1e6))
            except Exception:
                pass  # Of what has no storage nothing is known.
            return save(obj, *args, **kwargs)

        torch.save = torch.serialization.save = watched

    def takes(self, torch, *values):
        """These are used, in whatever way."""
        for seen in self.checkpoints:
            for value in values:
                for tensor in tensors_in(torch, value):
                    seen.used(tensor.data_ptr())

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
            read = ~mask.reshape(shape)
            words, rest, counts = tokens[~read], tokens[read], read.sum(1)
            one = rest.numel() >= 8 and words.numel() >= 8 and bool((rest == rest[0]).all() & (words != rest[0]).all())
            # Padding is a run at an end of rows, of other lengths from row to row: others are special tokens.
            steps = read.int().diff(dim=1)
            run = one and bool((steps >= 0).all() or (steps <= 0).all()) and bool(counts.max() > max(1, counts.min()))
            self.read_padding += run and words.unique().numel() > 2
        if self.read_padding == BATCHES:
            self.silent("padding_read", "token %d" % rest[0].item())


def tensors_in(torch, part, depth=4):
    """Tensors of more than one floating-point number in it: a state, and no count."""
    if isinstance(part, torch.Tensor):
        return [part] if part.is_floating_point() and part.numel() > 1 else []
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
    return [tensor for value in inner for tensor in tensors_in(torch, value, depth - 1)] if depth else []


def all_tensors_in(torch, value):
    """All tensors in it; none where there may be others that are not seen."""
    found, left = [], [value]
    for count in range(VALUES):
        if not left:
            return found
        value = left.pop()
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, (list, tuple, set)):
            left += value
        elif not isinstance(value, (str, bytes, int, float, type(None))):
            return []
    return []
