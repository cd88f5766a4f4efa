"""tune's side of a Python program.

* :func:`trial`: in a script that ``tune`` runs as a trial (task kind ``command``): its parameters, where to report, when to stop.
* :class:`Study`: ask and tell, for programs that train their trials themselves.
* :func:`read`: the trials of a study as a pandas or polars frame.
* :mod:`tune.optuna`: tune's search and pruning in programs that use Optuna.
* :mod:`tune.callbacks`: reporting from transformers, Lightning, Keras, XGBoost, LightGBM and CatBoost.

Nothing here needs another package, but for what the last three are about.
"""

from ._program import Error
from ._read import read
from ._study import Study, Suggestion
from ._trial import Trial, trial

__all__ = ["Error", "Study", "Suggestion", "Trial", "read", "trial"]
