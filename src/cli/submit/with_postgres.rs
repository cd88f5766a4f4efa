//! A PostgreSQL server that the first node runs for all, as the user who submits.

use std::path::Path;

use report::{shell_line, shell_word};

/// What a script begins with: the node whose number is 1 starts the server; all wait for its URL. `job` and `number` are the
/// variables that tell them.
pub(super) fn start(dir: &Path, [job, number]: [&str; 2]) -> String {
    let dir = shell_word(&dir.display().to_string());
    format!(
        r#"
# PostgreSQL for all nodes, run by the first one. Its files, the password among them, are this user's alone.
umask 077
postgres={dir}
PATH="$PATH:$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)"
if [ "{number}" = 1 ]; then
    mkdir -p "$postgres"
    rm -f "$postgres/url" "$postgres/over" "$postgres/failed"
    # The other nodes do not wait for a server that cannot start.
    fail() {{
        echo "$2" >&2
        echo "{job}" > "$postgres/failed"
        exit "$1"
    }}
    if [ ! -s "$postgres/pgpass" ]; then
        password=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
        echo "$password" > "$postgres/password"
        echo "*:*:*:tune:$password" > "$postgres/pgpass"
    fi
    if [ ! -s "$postgres/data/PG_VERSION" ]; then
        initdb -D "$postgres/data" -U tune -A scram-sha-256 --pwfile="$postgres/password" -E UTF8 > "$postgres/initdb.log" ||
            fail 9 "initdb has failed: see above and $postgres/initdb.log"
        echo "host all tune all scram-sha-256" >> "$postgres/data/pg_hba.conf"
    fi
    for port in $(shuf -i 20000-40000 -n 10); do
        pg_ctl start -w -D "$postgres/data" -l "$postgres/log" \
            -o "-p $port -c listen_addresses=* -c unix_socket_directories= -c max_connections=400" > /dev/null && break
        port=
    done
    [ -n "$port" ] || fail 7 "PostgreSQL has started on none of ten ports: see $postgres/log"
    export PGPASSFILE="$postgres/pgpass"
    psql -h localhost -p "$port" -U tune postgres -tc "SELECT 1 FROM pg_database WHERE datname = 'studies'" | grep -q 1 ||
        createdb -h localhost -p "$port" -U tune studies ||
        fail 7 "the database cannot be made: see above and $postgres/log"
    echo "postgresql://tune@$(hostname):$port/studies" > "$postgres/url.new"
    mv "$postgres/url.new" "$postgres/url"
fi
until [ -s "$postgres/url" ]; do
    # One that is run again may come when all is over.
    if grep -sqx "{job}" "$postgres/over"; then exit 0; fi
    if grep -sqx "{job}" "$postgres/failed"; then exit 7; fi
    sleep 1
done
export PGPASSFILE="$postgres/pgpass"
TUNE_STORAGE=$(cat "$postgres/url")
export TUNE_STORAGE
"#
    )
}

/// How a study is looked at whose server the job runs: while it runs, and afterwards.
pub(super) fn look(dir: &Path, project: &Path, study: &str) -> String {
    let file = |name: &str| shell_word(&dir.join(name).display().to_string());
    let (data, log, url, passwords) = (file("data"), file("log"), file("url"), file("pgpass"));
    let project = project.display().to_string();
    let status = shell_line(["tune", "-C", project.as_str(), "status", study]);
    format!(
        "while it runs:  TUNE_STORAGE=$(cat {url}) PGPASSFILE={passwords} {status}
once it is over:
  pg_ctl start -w -D {data} -l {log} -o '-p 25432 -c unix_socket_directories='
  TUNE_STORAGE=postgresql://tune@localhost:25432/studies PGPASSFILE={passwords} {status}
  pg_ctl stop -D {data}
"
    )
}

/// What a script does once its run has ended: the server waits for the other nodes, then it stops in order. Where this
/// node runs again, it does not wait, and nothing is over.
pub(super) fn stop([job, number]: [&str; 2]) -> String {
    format!(
        r#"
if [ "{number}" = 1 ]; then
    rm -f "$postgres/url"
    if [[ $code = [47] ]]; then
        pg_ctl stop -D "$postgres/data" -m fast > /dev/null
    else
        echo "{job}" > "$postgres/over"
        pg_ctl stop -D "$postgres/data" -m smart -t 600 > /dev/null || pg_ctl stop -D "$postgres/data" -m fast > /dev/null
    fi
fi
"#
    )
}
