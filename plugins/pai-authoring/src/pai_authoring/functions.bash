# Only names that a shell reads as they are: other processes may have made these directories.
_pai_runtime_runs() {
  local run
  for run in latest .pai-runs/*/run.json; do
    run=${run#.pai-runs/}
    run=${run%/run.json}
    [[ $run =~ ^[A-Za-z0-9._-]+$ && $run == "$1"* ]] && printf '%s\n' "$run"
  done
}

_pai_runtime_tasks() {
  local word run= task
  for word in "${COMP_WORDS[@]:2}"; do
    [[ -f .pai-runs/$word/run.json ]] && run=.pai-runs/$word
    [[ $word == */* && -f $word/run.json ]] && run=$word
  done
  if [[ -z $run ]]; then
    for word in .pai-runs/*/run.json; do
      [[ -z $run || $word -nt $run/run.json ]] && run=${word%/run.json}
    done
  fi
  for task in "$run"/*/*/plan.json; do
    task=${task#"$run"/}
    task=${task%/plan.json}
    [[ $task =~ ^[A-Za-z0-9_]+/[0-9]+$ && $task == "$1"* ]] && printf '%s\n' "$task"
  done
}

_pai_runtime_plugins() {
  compgen -W "@PLUGINS@" -- "$1"
}
