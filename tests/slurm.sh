#!/bin/sh
# A Slurm cluster of its own for tests: slurmctld, munge and NODES slurmd on this machine.
#
#     tests/slurm.sh NODES
#
# Run by root. Prints the path of its slurm.conf once all nodes are idle. It ends, and its directory with it, when
# standard input ends.
set -eu

nodes=$1
for program in munged slurmctld slurmd sbatch; do
    if ! command -v $program > /dev/null; then
        echo "Slurm is not installed (Debian: apt-get install slurm-wlm munge)" >&2
        exit 77
    fi
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/tune-slurm.XXXXXX")
chmod 755 "$dir"
host=$(hostname -s)
pids=
end() {
    trap - EXIT INT TERM HUP
    # Steps of jobs outlive their slurmd.
    SLURM_CONF=$dir/slurm.conf timeout 20 scancel --state=RUNNING --state=PENDING > /dev/null 2>&1 || true
    sleep 1
    for pid in $pids; do kill "$pid" 2> /dev/null || true; done
    for pid in $pids; do wait "$pid" 2> /dev/null || true; done
    pkill -f "slurmstepd.*$dir" 2> /dev/null || true
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

mkdir "$dir/munge" "$dir/state" "$dir/spool"
# The daemon refuses directories that others may write to, /tmp among them, unless told.
dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 2> /dev/null
chmod 400 "$dir/munge/key"
munged --force --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" \
    > "$dir/munge/out" 2>&1 &
pids="$!"

port=$(shuf -i 21000-28000 -n 1)
cat > "$dir/slurm.conf" <<EOF
ClusterName=tune
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmctldPort=$port
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmdLogFile=$dir/slurmd-%n.log
SlurmdSpoolDir=$dir/spool/%n
StateSaveLocation=$dir/state
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
SelectType=select/linear
InactiveLimit=0
KillWait=10
MinJobAge=300
SlurmdTimeout=10
Waittime=0
EOF
at=1
while [ "$at" -le "$nodes" ]; do
    echo "NodeName=n$at NodeHostname=$host Port=$((port + at)) CPUs=1 State=UNKNOWN" >> "$dir/slurm.conf"
    at=$((at + 1))
done
echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >> "$dir/slurm.conf"

export SLURM_CONF="$dir/slurm.conf"
slurmctld -D -f "$dir/slurm.conf" > "$dir/out" 2>&1 &
pids="$pids $!"
at=1
while [ "$at" -le "$nodes" ]; do
    slurmd -D -N "n$at" -f "$dir/slurm.conf" > "$dir/out-n$at" 2>&1 &
    pids="$pids $!"
    at=$((at + 1))
done
tries=0
until [ "$(sinfo -h -N -o %t 2> /dev/null | grep -c idle)" = "$nodes" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ]; then
        tail -n 20 "$dir"/*log "$dir"/out* "$dir/munge/out" >&2
        exit 1
    fi
    sleep 1
done
echo "$dir/slurm.conf"
cat > /dev/null
