#!/usr/bin/env bash
# English → German on Multi30k, as well as we can: 41.14 BLEU on test_2016_flickr (docs/LOG.md, 2026-11-18 in the morning).
# About four hours on two cores. Run it in a folder that holds multi30k/ (github.com/multi30k/dataset: its lc.norm.tok files):
#   bash …/recipes/multi30k-en-de-best.sh
# Each glass train goes on from its last checkpoint; the script does not know what is done: after a stop, begin with the line that was stopped.
# MINUTE=2 makes a minute two seconds long, to see whether everything is there.
set -euo pipefail
recipes=$(cd "$(dirname "$0")" && pwd)
MINUTE=${MINUTE:-60}

minutes() { python -c "print($1 * $MINUTE / 60)"; }
two_cores=(--processes 2 train.threads=1)
# Until a minute of a run is over, though it is planned for longer: its learning rate falls as planned.
until_minute() {
    local end=$1
    shift
    timeout --signal=INT "$(minutes "$end")m" "$@" || [ $? -eq 124 ] # which says: the time is over
    echo "stopped after $end minutes, as planned"
}

# One: a good translator. Less and less dropout; after half an hour each sentence is read twice (R-Drop).
first=(glass train "$recipes/multi30k-en-de.toml" --to runs/first "${two_cores[@]}" --allow-changes
    train.batch_tokens=2000 train.learning_rate=0.0035 train.warmup=600 "train.validate_minutes=$(minutes 8)")
until_minute 33 "${first[@]}" model.dropout=0.3 "train.max_minutes=$(minutes 116)"
until_minute 66 "${first[@]}" model.dropout=0.2 train.r_drop=3 "train.max_minutes=$(minutes 116)"
"${first[@]}" model.dropout=0.1 train.r_drop=3 "train.max_minutes=$(minutes 116)"

# Two: a translator back, and what both make of the training text.
glass train "$recipes/multi30k-de-en.toml" --to runs/back "train.max_minutes=$(minutes 24)"
train=multi30k/train.lc.norm.tok
glass translate --model runs/back --input $train.de --output back-beam.en --beams 5
glass translate --model runs/back --input $train.de --output back-sample.en --sample --top-p 0.9 --temperature 0.8 --seed 1
glass translate --model runs/first --input $train.en --output forth.de --beams 5 --length-penalty 1.4
python "$recipes/multi30k_mix.py"

# Three: the first one goes on with that text beside its own, then with its own alone and less dropout.
best=(glass train "$recipes/multi30k-en-de-best.toml" --to runs/best "${two_cores[@]}" --allow-changes "train.max_minutes=$(minutes 80)")
until_minute 58 "${best[@]}" "train.validate_minutes=$(minutes 8)"
"${best[@]}" "train.validate_minutes=$(minutes 6)" model.dropout=0.1 \
    "data.corpora=[{ source = \"$train.en\", target = \"$train.de\" }]"

for set in val test_2016_flickr; do
    glass evaluate --model runs/best --beams 5 --tokenize none --length-penalty 1.4 \
        --source multi30k/$set.lc.norm.tok.en --reference multi30k/$set.lc.norm.tok.de
done
