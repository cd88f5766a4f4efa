"""The trials of a study as frames of pandas and polars (pytest)."""

import datetime
import os

import pandas
import polars
import pytest

import tune

TUNE = os.environ["TUNE"]
SPACE = {
    "kind": {"choices": ["a", "b"]},
    "n": {"low": 1, "high": 8, "int": True},
    "width": {"low": 0.01, "high": 10.0, "when": {"kind": ["b"]}},
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("read") / "kept.db")
    with tune.Study(SPACE, storage=path, name="kept", sampler="random", program=TUNE) as study:
        for value in [0.5, None, float("inf"), 2.0, 0.25, 1.5]:
            study.tell(study.ask(), value)
        study.ask()
        yield path


def test_a_frame_of_pandas_has_numbers_texts_and_times(storage):
    frame = tune.read("kept", storage=storage, program=TUNE)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["state"]) == ["COMPLETE", "FAIL", *["COMPLETE"] * 4, "RUNNING"]
    assert frame["value"].dtype == "float64"
    assert frame["value"].tolist()[2] == float("inf")
    assert frame["value"].isna().tolist() == [False, True, False, False, False, False, True]
    assert frame["params.n"].dtype == "int64"
    assert frame["params.width"].isna().equals(frame["params.kind"] == "a")
    assert str(frame["datetime_start"].dt.tz) == "UTC"
    assert frame["datetime_complete"].isna().tolist() == [False] * 6 + [True]
    assert (frame["datetime_complete"] >= frame["datetime_start"])[:6].all()
    assert frame.sort_values("value").iloc[0]["number"] == 4


def test_a_frame_of_polars_has_numbers_texts_and_times(storage):
    frame = tune.read("kept", storage=storage, to="polars", program=TUNE)
    assert isinstance(frame, polars.DataFrame)
    assert frame.schema["value"] == polars.Float64
    assert frame.schema["params.n"] == polars.Int64
    assert frame.schema["params.kind"] == polars.String
    assert frame.schema["datetime_start"] == polars.Datetime("us", "UTC")
    assert frame["value"].to_list()[:3] == [0.5, None, float("inf")]
    assert frame["datetime_complete"].is_null().to_list() == [False] * 6 + [True]
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs(now - frame["datetime_start"].max()) < datetime.timedelta(minutes=5)


def test_a_study_without_trials_is_a_frame_without_rows(tmp_path):
    path = str(tmp_path / "empty.db")
    tune.Study(SPACE, storage=path, name="empty", program=TUNE).close()
    for to, frame in [("pandas", pandas.DataFrame), ("polars", polars.DataFrame)]:
        read = tune.read("empty", storage=path, to=to, program=TUNE)
        assert isinstance(read, frame)
        assert len(read) == 0


def test_the_numbers_of_numpy_are_taken(storage):
    numpy = pytest.importorskip("numpy")
    with tune.Study({"x": {"low": numpy.float32(0), "high": numpy.int64(4)}}, max_step=numpy.int64(3), program=TUNE) as study:
        trial = study.ask()
        assert trial.report(numpy.int32(1), numpy.float32(0.5)) is False
        study.tell(trial, numpy.array(0.25))
