#!/bin/sh
# Starts a command, looks every so often whether it still runs, and starts it again when it has failed, five times at most.
#
#   supervise.sh POLL_SECONDS RESTARTS_FILE COMMAND...
poll=$1
file=$2
shift 2
"$@" &
pid=$!
restarts=0
while :; do
    sleep "$poll"
    if kill -0 $pid 2> /dev/null; then continue; fi
    if wait $pid; then exit 0; fi
    if [ $restarts -ge 5 ]; then
        echo "supervisor: five restarts are used up"
        exit 1
    fi
    restarts=$((restarts + 1))
    echo restart >> "$file"
    "$@" &
    pid=$!
done
