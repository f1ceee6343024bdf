#!/usr/bin/env bash
# Draws the pictures of the documents again, or those named, byte for byte as they are:
# every method here is the same in every run. Not here is what is measured:
# swap-*-* and offload-bandwidths-* (frozen on 2026-11-23), nightly-*.png (the page of a small sweep, twice), and what
# is made of another's file: placement-c. Pictures of measured transformers are drawn where their profiles are, and
# show what the search finds in its time.
#   scripts/pictures.sh [--check] [NAME...]   --check: draws elsewhere, and fails if one differs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
documents=$PWD/docs/images images=$PWD/docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plan=$work/plan.json
if [ "${1:-}" = --check ]; then
  images=$work/images
  mkdir "$images"
  shift
fi
wanted=("$@")

# want NAME: whether it is to be drawn.
want() {
  local name
  [ ${#wanted[@]} = 0 ] && return
  for name in "${wanted[@]}"; do [ "$name" = "$1" ] && return; done
  return 1
}

# timeline NAME PROBLEM INSTANCE FLAGS...: a plan, drawn.
timeline() {
  want "$1" || return 0
  echo "$1"
  bin/workbench solve --problem "$2" "$3" "${@:4}" --quiet --plan "$plan" >"$work/out"
  bin/workbench show "$plan" --timeline "$images/$1.svg" >"$work/out"
}

# curve NAME PROBLEM INSTANCE FLAGS...: a trade-off, drawn.
curve() {
  want "$1" || return 0
  echo "$1"
  bin/workbench curve --problem "$2" "$3" "${@:4}" --quiet --plot "$images/$1.svg" >"$work/out"
}

# flush NAME STAGES-FLAGS -- FLAGS: a pipeline that flushes, T5 on four GPUs of 32 GB.
flush() {
  want "$1" || return 0
  local name=$1 stages=()
  shift
  while [ "$1" != -- ]; do stages+=("$1"); shift; done
  shift
  bin/workbench stages 'zoo:t5-large?seq=2048&target=512&dtype=fp16' --processors 4 --micro-batches 8 --memory 32GB "${stages[@]}" -o "$work/stages.json"
  timeline "$name" flush "$work/stages.json" --micro-batches 8 --memory 32GB --method search "$@"
}

# transformer NAME NETWORK GPUS CHUNKS PLACEMENT MEMORY STAGES-FLAGS...: a measured transformer that flushes, four micro-batches
# for each GPU, where its profile is.
transformer() {
  want "$1" && [ -d "${DATA:-../shared/data}/aceso" ] || return 0
  scripts/instances.sh transformers
  local run=(--placement "$5" --memory "$6" --micro-batches $((4 * $3)))
  bin/workbench stages "sweeps/instances/transformers/$2.json" --quiet --processors "$3" --chunks "$4" --weight-copies 8 --bandwidth 42GB/s "${run[@]}" "${@:7}" -o "$work/stages.json"
  timeline "$1" flush "$work/stages.json" "${run[@]}" --method search
}

# memory NAME PROBLEM INSTANCE SOLVE-FLAGS -- FLAGS: what allocators make of a plan.
memory() {
  want "$1" || return 0
  echo "$1"
  local name=$1 problem=$2 instance=$3 solve=()
  shift 3
  while [ "$1" != -- ]; do solve+=("$1"); shift; done
  shift
  bin/workbench solve --problem "$problem" "$instance" "${solve[@]}" --quiet --plan "$plan" >"$work/out"
  bin/workbench fragmentation "$plan" "$@" --plot "$images/$name.svg" >"$work/out"
}

timeline remat-resnet50 remat zoo:resnet50 --range 30% --method optimum
timeline gpt2 weight-offload 'zoo:table1-gpt2?depth=38&batch=16' --range 20% --bandwidth 12GB/s --method search
timeline offload-resnet50 activation-offload 'zoo:resnet50?image=500&batch=16' --range 60% --bandwidth 12GB/s --method search
timeline pofo-resnet50 remat-offload 'zoo:resnet50?image=500&batch=16' --range 20% --bandwidth 12GB/s --method pofo
timeline swap-resnet18 swap 'zoo:resnet18?as=functions' --memory 426MiB --bandwidth 12GB/s --method search
timeline pipeline-resnet50 pipeline 'zoo:resnet50?image=1000&batch=8' --memory 8GB --processors 4 --bandwidth 12GB/s --method search
timeline flush-zero-bubble flush testdata/examples/zero-bubble.json --micro-batches 12 --memory 10 --method exact
flush flush-t5 --chunks 2 -- --placement v
flush flush-t5-recompute --chunks 2 --placement v --recompute auto -- --placement v
for network in gpt-4 t5-8; do
  transformer "flush-$network-straight" $network 4 1 straight 80GB
  transformer "flush-$network-interleaved" $network 4 2 interleaved 80GB
  transformer "flush-$network-v" $network 4 2 v 80GB
done
for placement in straight interleaved v; do
  chunks=2
  [ $placement != straight ] || chunks=1
  transformer "flush-t5-8-eight-$placement" t5-8 8 $chunks $placement 60GB
done
transformer flush-gpt-4-copies gpt-4 4 2 v 60GB --offload auto --offload-share 30% --host-bandwidth 64GB/s

curve curve-resnet50 remat zoo:resnet50 --points 60 --methods store-all,periodic,revolve,persistent,optimum
curve offload-ratio-resnet50 activation-offload 'zoo:resnet50?image=500&batch=16' --points 33 --quantity ratio \
  --methods greedy,vdnn,autoswap,dynprog-slots,dynprog,search,optimum
curve pofo-throughput-resnet50 remat-offload 'zoo:resnet50?image=500&batch=16' --quantity throughput
curve pofo-moved-resnet101 remat-offload 'zoo:resnet101?image=500&batch=16' --over bandwidth --at 6GB/s,12GB/s,18GB/s,24GB/s,36GB/s \
  --range 20% --quantity moved
curve curve-pipeline pipeline 'zoo:resnet50?image=1000&batch=8' --over processors --methods pipedream,1f1b-star,madpipe,search
for network in resnet50 resnet101 inception densenet121; do
  for gpus in 4 8; do
    curve "pipeline-claims-$network-p$gpus" pipeline "zoo:$network?image=1000&batch=8" --processors "$gpus" --bandwidth 12GB/s \
      --at 4GB,5GB,6GB,7GB,8GB,9GB,10GB,11GB,12GB,13GB,14GB,15GB,16GB --methods pipedream-star,pipedream-star-memory,pipedream,1f1b-star,madpipe
  done
done

memory fragmentation-resnet18 swap 'zoo:resnet18?as=functions' --memory 426MiB --bandwidth 12GB/s --method search -- --allocator both --chunk 2MiB
memory fragmentation-resnet50 swap 'zoo:resnet50?as=functions&batch=928&device=V100-16GB' --memory 12.8GiB --bandwidth 50GB/s --method window -- --allocator both --chunk 2MiB
memory fragmentation-resnet50-late swap 'zoo:resnet50?as=functions&batch=928&device=V100-16GB' --memory 12.8GiB --bandwidth 50GB/s --method window -- --allocator both --chunk 2MiB --late

[ "$images" = "$documents" ] && exit
for file in "$images"/*; do
  cmp "$file" "$documents/$(basename "$file")" || { echo "docs/images: make pictures draws another ${file##*/}"; exit 1; }
done
