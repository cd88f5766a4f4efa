# A shell script as a task: parameters are variables, metrics are lines on a descriptor.
goal=3
step=0
while [ "$step" -lt 5 ]; do
    step=$((step + 1))
    off=$((TUNE_PARAM_WIDTH - goal))
    echo "{\"step\": $step, \"loss\": $((off * off * 10 + 50 / step))}" >&"$TUNE_METRICS_FD"
    read -r answer <&"$TUNE_METRICS_FD"
    case $answer in *true*) exit ;; esac
done
