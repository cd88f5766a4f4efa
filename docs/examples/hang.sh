# Hangs for some values: after the deadline it is ended, tried once more, and PRUNED as a hang.
if [ "$1" -gt 7 ]; then
    echo "waiting for a lock that never comes"
    sleep 100000
fi
echo "loss $(($1 * $1))"
