#!/bin/sh
# A PostgreSQL server of its own for tests: run by an ordinary user, in a directory of its own, on a
# socket there and on no port.
#
#     tests/postgres.sh [NAME=VALUE ...]     settings of the server
#
# With the setting tls=PORT it listens on that port of localhost as well, by TLS; its certificate is root.crt beside
# the socket, and the password of postgres there is "secret".
#
# Prints the directory of its socket once it takes connections. A line "restart SECONDS" on standard
# input stops it, and starts it again after that time. It ends, and its directory with it, when
# standard input ends. The superuser is called postgres and needs no password there.
set -eu

bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
if [ -z "$bin" ]; then
    bin=$(dirname "$(command -v initdb || true)")
fi
if [ ! -x "$bin/initdb" ]; then
    echo "PostgreSQL's server is not installed (Debian: apt-get install postgresql)" >&2
    exit 77
fi

# It refuses to be run by root. Words of a command, so that a process in the background is the server itself.
user=
if [ "$(id -u)" = 0 ]; then
    user="setpriv --reuid=postgres --regid=postgres --clear-groups --"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/tune-postgres.XXXXXX")
if [ -n "$user" ]; then
    chown postgres:postgres "$dir"
fi
cd "$dir"
pid=
end() {
    trap - EXIT INT TERM HUP
    if [ -n "$pid" ]; then
        kill -QUIT "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    cd /
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

$user "$bin/initdb" --pgdata "$dir/data" --username postgres --auth-local trust --auth-host scram-sha-256 --encoding UTF8 \
    --locale C.UTF-8 --no-sync --no-instructions >"$dir/log" 2>&1 || {
    cat "$dir/log" >&2
    exit 1
}
set -- "listen_addresses=" "max_connections=200" "shared_buffers=64MB" "$@"
tls=
for setting; do
    case $setting in
    tls=*)
        tls=${setting#tls=}
        printf "ssl = on\nlisten_addresses = 'localhost'\nport = %s\n" "$tls"
        ;;
    *) printf '%s\n' "$setting" | sed "s/=\(.*\)/ = '\1'/" ;;
    esac
done >>"$dir/data/postgresql.conf"
if [ -n "$tls" ]; then
    PGPORT=$tls
    export PGPORT
    (
        umask 077
        # No authority: one that signs itself is no server's certificate to rustls.
        $user openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
            -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
            -keyout "$dir/data/server.key" -out "$dir/data/server.crt" 2>>"$dir/log"
    )
    cp "$dir/data/server.crt" "$dir/root.crt"
    chmod 644 "$dir/root.crt"
fi
start() {
    $user "$bin/postgres" -D "$dir/data" -k "$dir" >>"$dir/log" 2>&1 </dev/null &
    pid=$!
    tries=0
    until $user "$bin/pg_isready" --quiet --host "$dir"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
            cat "$dir/log" >&2
            exit 1
        fi
        sleep 0.1
    done
}
start
if [ -n "$tls" ]; then
    $user "$bin/psql" --quiet --host "$dir" --username postgres --command "ALTER ROLE postgres PASSWORD 'secret'"
fi
echo "$dir"
while read -r order seconds; do
    [ "$order" = restart ] || continue
    kill -INT "$pid"
    wait "$pid" || true
    sleep "$seconds"
    start
    echo again
done
