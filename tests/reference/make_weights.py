"""Writes tests/reference/weights: small files of `torch.save` of every kind that is read or refused, and
what they hold as safetensors. Needs torch 2.11 and safetensors; run it in tests/reference.

The files that ask for `os.system` would call `true`: nothing that reads them here executes anything.
"""

import collections
import os
import pickle
import zipfile

import torch
from safetensors.torch import save_file

OUT = "weights"


class Evil:
    def __reduce__(self):
        return (os.system, ("true",))


def state():
    torch.manual_seed(7)
    base = torch.randn(6, 5)
    shared = torch.randn(40)
    all = collections.OrderedDict()
    all["plain"] = torch.randn(3, 4)
    all["half"] = torch.randn(5).half()
    all["brain"] = torch.randn(2, 3).bfloat16()
    all["double"] = torch.randn(3).double()
    all["transposed"] = base.t()
    all["column"] = base[:, 2]
    all["reversed_dims"] = torch.randn(2, 3, 4).permute(2, 0, 1)
    all["first"] = shared[3:15].view(3, 4)
    all["second"] = shared[10:30:2]
    all["single"] = torch.tensor(2.5)
    all["empty"] = torch.zeros(0, 3)
    all["parameter"] = torch.nn.Parameter(torch.randn(4))
    all["position_ids"] = torch.arange(8).expand(1, -1)
    all["flags"] = torch.tensor([True, False])
    all._metadata = collections.OrderedDict({"": {"version": 1}})
    return all


def resaved(name, source, change):
    """A copy of an archive with some entries changed, and their CRCs right."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(name, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, change(entry.filename, old.read(entry)))


def main():
    os.makedirs(OUT, exist_ok=True)
    path = lambda name: os.path.join(OUT, name)
    all = state()
    torch.save(all, path("zip.bin"))
    torch.save(all, path("legacy.bin"), _use_new_zipfile_serialization=False)
    torch.save(dict(all), path("protocol4.bin"), pickle_protocol=4)
    plain = {k: v.detach().clone().contiguous() for k, v in all.items()}
    save_file(plain, path("expected.safetensors"))

    torch.save({"a": torch.zeros(2), "b": Evil()}, path("evil_zip.bin"))
    torch.save({"a": torch.zeros(2), "b": Evil()}, path("evil_legacy.bin"), _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), path("module.bin"))
    torch.save([torch.zeros(2)], path("list.bin"))
    with open(path("plain_pickle.bin"), "wb") as file:
        pickle.dump({"a": 1}, file)
    resaved(
        path("big_endian.bin"),
        path("zip.bin"),
        lambda name, data: b"big" if name.endswith("byteorder") else data,
    )
    # The same storages, told to be of more values than they have.
    resaved(
        path("longer.bin"),
        path("zip.bin"),
        lambda name, data: data[:-4] if name.endswith("data/0") else data,
    )


main()
