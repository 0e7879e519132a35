_pai_runtime_runs() {
  local -a runs
  runs=(.pai-runs/*/run.json(N:h:t))
  compadd -- latest $runs
}

_pai_runtime_tasks() {
  local word run
  local -a tasks found
  for word in "${words[@]:1}"; do
    [[ -f .pai-runs/$word/run.json ]] && run=.pai-runs/$word
    [[ $word == */* && -f $word/run.json ]] && run=$word
  done
  if [[ -z $run ]]; then
    found=(.pai-runs/*/run.json(Nom:h))
    run=$found[1]
  fi
  tasks=($run/*/*/plan.json(N:h))
  compadd -- ${tasks#$run/}
}

_pai_runtime_plugins() {
  compadd -- @PLUGINS@
}
