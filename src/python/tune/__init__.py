"""tune's side of a Python program.

* :func:`trial`: in a script that ``tune`` runs as a trial (task kind ``command``): its parameters, where to report, when to stop.
* :class:`Study`: ask and tell, for programs that train their trials themselves.
* :func:`read`: the trials of a study as a pandas or polars frame.
* :mod:`tune.callbacks`: trials in the training loops of transformers, Lightning, Keras, XGBoost, LightGBM and CatBoost.
* :mod:`tune.optuna`: a sampler and a pruner for programs that are written for Optuna.

Nothing here needs another package, but for the frames, Optuna and those loops.
"""

from ._program import Error
from ._read import read
from ._study import Study, Suggestion
from ._trial import Trial, trial

__all__ = ["Error", "Study", "Suggestion", "Trial", "read", "trial"]
