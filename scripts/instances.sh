#!/usr/bin/env bash
# Make those instances of the documents' sweeps that are not built in, in sweeps/instances/WHAT,
# unless they are there:
#
#   scripts/instances.sh steps           # training steps of networks, traced by PyTorch
#   scripts/instances.sh huge            # one of 9,919 nodes: half a minute and 10 GiB of memory
#   scripts/instances.sh pipedream       # PipeDream's profiles, as chains and as graphs
#   scripts/instances.sh transformers    # Aceso's profiles, and stages of one
#   scripts/instances.sh layouts         # analytic profiles and Aceso's, to be cut into stages
#   scripts/instances.sh demonstrations  # those of zero bubble pipelines
#   scripts/instances.sh lifetimes       # buffers of minimalloc and idealloc
#   scripts/instances.sh pypto           # buffers of dsa-solver, with pools, pairs and penalties
#
# Profiles are read from the folder DATA (default: ../shared/data).
set -euo pipefail

what=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$PWD/bin
data=${DATA:-../shared/data}
[ ! -e "sweeps/instances/$what" ] || exit 0
into=sweeps/instances/$what.new
rm -rf "$into"
mkdir -p "$into"

case $what in
steps)
  "$(scripts/torch.sh --find)" pytorch/examples/trace_networks.py "$into"
  ;;
huge)
  "$(scripts/torch.sh --find)" pytorch/examples/trace_networks.py "$into" gpt180
  ;;
pipedream)
  for file in "$data"/pipedream/*/graph.txt; do
    for form in chain graph; do
      name=$(basename "$(dirname "$file")")-$form
      workbench import --quiet --from pipedream "$file" --as "$form" --name "$name" -o "$into/$name.json"
    done
  done
  ;;
transformers)
  for network in 'gpt-1:gpt_1_3B_mbs1:GPT-1.3B, 1' 'gpt-4:gpt_1_3B_mbs4:GPT-1.3B, 4' 't5-8:t5_770M_mbs8:T5-770M, 8'; do
    IFS=: read -r file profile name <<<"$network"
    workbench import --quiet --from aceso "$data/aceso/${profile}_tp1_algo0.csv" --layers 24 --name "$name" -o "$into/$file.json"
  done
  mkdir "$into/stages"
  workbench stages "$into/gpt-1.json" --quiet --processors 4 --weight-copies 8 --bandwidth 42GB/s -o "$into/stages/gpt-1.json"
  ;;
layouts)
  for network in llama8b llama70b llama70b-tp4; do
    workbench import --quiet --from layout-profile "$data/layout/$network.txt" -o "$into/$network.json"
  done
  for network in gpt-6.7b:gpt_6_7B_mbs2:32 t5-3b:t5_3B_mbs4:24; do
    IFS=: read -r name profile layers <<<"$network"
    workbench import --quiet --from aceso "$data/aceso/${profile}_tp1_algo0.csv" --layers "$layers" --name "$name" -o "$into/$name.json"
  done
  ;;
demonstrations) # times in their unit are milliseconds here
  python3 - "$data/zero-bubble/instances.json" "$into" <<'END'
import json, sys
for d in json.load(open(sys.argv[1]))["instances"]:
    stages = [{"forward_time": f / 1e3, "backward_time": b / 1e3, "weight_time": w / 1e3, "forward_memory": mf, "backward_memory": mb, "weight_memory": mw}
              for f, b, w, mf, mb, mw in zip(*(d[k] for k in ("cost_f", "cost_b", "cost_w", "mem_f", "mem_b", "mem_w")))]
    file = {"format": "workbench.stages/v1", "name": d["name"], "communication_time": d["cost_comm"] / 1e3, "stages": stages}
    json.dump(file, open(f"{sys.argv[2]}/{d['name']}.json", "w"))
END
  ;;
lifetimes)
  for file in "$data"/minimalloc/[A-K]*.csv "$data"/idealloc/*.csv; do
    name=$(basename "$file")
    workbench import --quiet --from minimalloc "$file" --name "${name%%.*}" -o "$into/${name%%.*}.json"
  done
  gzip -dc "$data/reports/placement/somas-pangu-13B.csv.gz" |
    workbench import --quiet --from minimalloc - --name somas-pangu-13B -o "$into/somas-pangu-13B.json"
  ;;
pypto)
  for file in "$data"/pypto/*.json; do
    name=$(basename "$file" .json)
    [ "$name" = dsa-problem-v1.schema ] || workbench import --quiet --from dsa-solver "$file" --name "$name" -o "$into/$name.json"
  done
  ;;
*)
  rmdir "$into"
  echo "$0: $what: there are steps, huge, pipedream, transformers, layouts, demonstrations, lifetimes and pypto" >&2
  exit 2
  ;;
esac
mv "$into" "${into%.new}"
