#!/usr/bin/env python3
"""What other programs read of an export of trials, as JSON in one form.

    read.py csv|parquet|mlflow|tensorboard PATH CURVE

CURVE is the metric whose values step by step are read.
"""

import json
import os
import pathlib
import sys


def table(frame):
    import pandas

    rows = []
    for row in frame.to_dict("records"):
        there = {name: x for name, x in row.items() if not pandas.isna(x)}
        params = {n.removeprefix("params."): x for n, x in there.items() if n.startswith("params.")}
        rows.append({
            "number": row["number"],
            "state": row["state"],
            "values": [there["value"]] if "value" in there else [],
            "params": params,
            "attrs": json.loads(row["attrs"]),
            "seconds": seconds(row["datetime_start"], row["datetime_complete"]),
        })
    return rows


def seconds(start, end):
    import pandas

    length = pandas.to_datetime(end, utc=True) - pandas.to_datetime(start, utc=True)
    return length.total_seconds()


def csv(path, _curve):
    import pandas

    return {"trials": table(pandas.read_csv(path, keep_default_na=False, na_values=[""]))}


def parquet(path, _curve):
    import pandas
    import pyarrow.parquet

    types = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(path)}
    return {"trials": table(pandas.read_parquet(path)), "types": types}


def mlflow(path, curve):
    # MLflow prefers a database, and says so by an error without this.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    client = MlflowClient(pathlib.Path(path).absolute().as_uri())
    experiments = [e for e in client.search_experiments() if e.experiment_id != "0"]
    trials = []
    for run in client.search_runs([experiments[0].experiment_id], max_results=5000):
        data = run.data
        history = client.get_metric_history(run.info.run_id, curve)
        trials.append({
            "number": int(data.tags["tune.number"]),
            "state": data.tags["tune.state"],
            "status": run.info.status,
            "name": run.info.run_name,
            "values": [data.metrics["value"]] if "value" in data.metrics else [],
            "params": data.params,
            "attrs": {n.removeprefix("tune."): x for n, x in data.tags.items() if n.startswith("tune.")},
            "metrics": data.metrics,
            "curve": [[m.step, m.value] for m in history],
            "seconds": (run.info.end_time - run.info.start_time) / 1000,
        })
    trials.sort(key=lambda t: t["number"])
    return {"experiment": experiments[0].name, "trials": trials}


def session_groups(path):
    """What the page of hyperparameters asks its server for: each trial with the metric `value`."""
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    runs = plugin_event_multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(path)
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, path)
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=path))
    asked = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=5000, allowed_statuses=[0, 1, 2, 3])
    asked.col_params.add().metric.tag = "value"
    answer = list_session_groups.Handler(context.RequestContext(), backend, "", asked).run()
    return {group.name: [m.value for m in group.metric_values] for group in answer.session_groups}


def tensorboard(path, curve):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    def opened(directory):
        events = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        return events

    def hparams(events, tag):
        # Of data without a tensor that matters, the metadata say it all.
        content = events.SummaryMetadata(tag).plugin_data.content
        return plugin_data_pb2.HParamsPluginData.FromString(content)

    root = pathlib.Path(path)
    experiment = hparams(opened(root), "_hparams_/experiment").experiment
    trials = []
    for directory in sorted(d for d in root.iterdir() if d.is_dir()):
        events = opened(directory)
        scalars = events.Tags()["scalars"]
        start = hparams(events, "_hparams_/session_start_info").session_start_info
        end = hparams(events, "_hparams_/session_end_info").session_end_info
        values = {name: getattr(x, x.WhichOneof("kind")) for name, x in start.hparams.items()}
        trials.append({
            "number": int(directory.name.removeprefix("trial-")),
            "values": [s.value for s in events.Scalars("value")] if "value" in scalars else [],
            "params": values,
            "metrics": {name: events.Scalars(name)[-1].value for name in scalars},
            "curve": [[s.step, s.value] for s in events.Scalars(curve)] if curve in scalars else [],
            "status": end.status,
            "seconds": end.end_time_secs - start.start_time_secs,
        })
    return {
        "trials": trials,
        "groups": session_groups(path),
        "hparams": {i.name: i.type for i in experiment.hparam_infos},
        "metrics": [i.name.tag for i in experiment.metric_infos],
    }


def main():
    form, path, curve = sys.argv[1:]
    read = {"csv": csv, "parquet": parquet, "mlflow": mlflow, "tensorboard": tensorboard}[form]
    print(json.dumps(read(path, curve), default=str))


main()
