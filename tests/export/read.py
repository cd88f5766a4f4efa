#!/usr/bin/env python3
"""What other programs read of an export of trials, as JSON in one form.

    read.py csv|parquet|mlflow|tensorboard|wandb PATH CURVE

CURVE is the metric whose values step by step are read. What `wandb sync` reads of its directory is what it sends to a server
of ours.
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
    # A run that is only beginning has none yet.
    ids = [e.experiment_id for e in experiments[:1]]
    trials = []
    for run in client.search_runs(ids, max_results=5000) if ids else []:
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
            "seconds": (run.info.end_time - run.info.start_time) / 1000 if run.info.end_time else None,
        })
    trials.sort(key=lambda t: t["number"])
    return {"experiment": experiments[0].name if experiments else None, "trials": trials}


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
    common = opened(root) if any(root.glob("events.out.tfevents.*")) else None
    experiment = hparams(common, "_hparams_/experiment").experiment if common else None
    trials = []
    for directory in sorted(d for d in root.iterdir() if d.is_dir()):
        events = opened(directory)
        scalars = events.Tags()["scalars"]
        start = hparams(events, "_hparams_/session_start_info").session_start_info
        tensors = events.Tags()["tensors"]
        ended = "_hparams_/session_end_info" in tensors
        end = hparams(events, "_hparams_/session_end_info").session_end_info if ended else None
        values = {name: getattr(x, x.WhichOneof("kind")) for name, x in start.hparams.items()}
        trials.append({
            "number": int(directory.name.removeprefix("trial-")),
            "values": [s.value for s in events.Scalars("value")] if "value" in scalars else [],
            "params": values,
            "metrics": {name: events.Scalars(name)[-1].value for name in scalars},
            "curve": [[s.step, s.value] for s in events.Scalars(curve)] if curve in scalars else [],
            "status": end.status if end else None,
            "seconds": end.end_time_secs - start.start_time_secs if end else None,
        })
    return {
        "trials": trials,
        "groups": session_groups(path),
        "hparams": {i.name: i.type for i in experiment.hparam_infos} if experiment else None,
        "metrics": [i.name.tag for i in experiment.metric_infos] if experiment else None,
    }


def sent_by_wandb(runs):
    """What `wandb sync` sends of these directories: requests' paths with their bodies."""
    import gzip
    import http.server
    import subprocess
    import tempfile
    import threading

    sent = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.startswith("/sdk/"):
                self.send_error(404)  # Its telemetry.
                return
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            body = json.loads(body)
            sent.append((self.path, body))
            answer = json.dumps(self.answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def answer(self, body):
            asked = body.get("variables", {})
            if body.get("operationName") == "UpsertBucket":
                entity = {"id": "e", "name": "me"}
                project = {"id": "p", "name": asked["project"], "entity": entity}
                bucket = {"id": "b", "name": asked["name"], "displayName": asked["displayName"], "config": "{}"}
                return {"data": {"upsertBucket": {"bucket": {**bucket, "project": project}, "inserted": True}}}
            if body.get("operationName") == "CreateRunFiles":
                return {"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": []}}}
            return {"data": {}}

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "0" * 40}
        runs = [str(run.absolute()) for run in runs]
        program = [str(pathlib.Path(sys.executable).with_name("wandb")), "sync", "--yes", "--include-synced", *runs]
        with tempfile.TemporaryDirectory() as home:  # for its logs
            env = {**os.environ, **place, "HOME": home}
            done = subprocess.run(program, cwd=home, env=env, capture_output=True, text=True, check=False)
        server.shutdown()
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return sent


def wandb(path, curve):
    trials, runs = {}, sorted(pathlib.Path(path, "wandb").iterdir())
    sent = sent_by_wandb(runs)
    # On a busy machine `wandb sync` now and then ends well and has sent nothing of a run but its beginning.
    told = {address.split("/")[-2] for address, _ in sent if address.endswith("/file_stream")}
    if silent := [run for run in runs if run.name.split("-")[-1] not in told]:
        print("sent again:", *silent, file=sys.stderr)
        sent += sent_by_wandb(silent)
    for address, body in sent:
        if body.get("operationName") == "UpsertBucket":
            asked = body["variables"]
            config = {name: x["value"] for name, x in json.loads(asked["config"]).items() if name != "_wandb"}
            told = {"name": asked["displayName"], "project": asked["project"], "curve": [], "summary": {}}
            trials.setdefault(asked["name"], told)["params"] = config
        elif address.endswith("/file_stream"):
            trial = trials[address.split("/")[-2]]
            files = body.get("files", {})
            for line in files.get("wandb-history.jsonl", {}).get("content", []):
                step = json.loads(line)
                trial["curve"].append([step["_step"], step[curve]])
            for line in files.get("wandb-summary.json", {}).get("content", []):
                trial["summary"] = json.loads(line)
            trial["exit"] = body.get("exitcode", trial.get("exit"))
    for trial in trials.values():
        summary = trial.pop("summary")
        trial["number"] = trial["params"].pop("tune.number")
        trial["state"] = summary.get("tune.state")
        trial["values"] = [summary["value"]] if "value" in summary else []
        trial["metrics"] = summary
    return {"trials": sorted(trials.values(), key=lambda t: t["number"])}


def main():
    form, path, curve = sys.argv[1:]
    read = {"csv": csv, "parquet": parquet, "mlflow": mlflow, "tensorboard": tensorboard, "wandb": wandb}[form]
    print(json.dumps(read(path, curve), default=str))


main()
