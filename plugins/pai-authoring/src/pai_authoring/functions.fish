function _pai_runtime_runs
  echo latest
  for run in .pai-runs/*/run.json
    string replace -r '^\.pai-runs/(.*)/run\.json$' '$1' -- $run
  end
end

function _pai_runtime_tasks
  set -l run
  for word in (commandline -opc)[3..-1]
    test -f .pai-runs/$word/run.json; and set run .pai-runs/$word
    string match -q '*/*' -- $word; and test -f $word/run.json; and set run $word
  end
  if test -z "$run"
    for file in .pai-runs/*/run.json
      if test -z "$run"; or test $file -nt $run/run.json
        set run (string replace -r '/run\.json$' '' -- $file)
      end
    end
  end
  for task in $run/*/*/plan.json
    string replace -r '^.*/([^/]+/[^/]+)/plan\.json$' '$1' -- $task
  end
end

function _pai_runtime_plugins
  printf '%s\n' @PLUGINS@
end
