package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestCandidates(t *testing.T) {
	app := newApp(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}})
	tests := []struct {
		words    []string
		has, not string
	}{
		{[]string{""}, "solve", "__complete"},
		{[]string{"so"}, "solve", "compare"},
		{[]string{"zoo", ""}, "show", "solve"},
		{[]string{"solve", "--"}, "--memory", "--timeline"},
		{[]string{"solve", "zoo:g"}, "zoo:gpt2", "zoo:vgg16"},
		{[]string{"solve", "--problem", "weight-offload", "--method", "g"}, "greedy", "l2l"},
		{[]string{"solve", "--backend", ""}, "lpsolve", "zoo:gpt2"},
		{[]string{"completion", ""}, "fish", "solve"},
		{[]string{"solve", "--quiet", ""}, "zoo:gpt2", "solve"},
		{[]string{"solve", "--problem=remat", "--method", ""}, "chen", "l2l"},
		{[]string{"solve", "--problem", "join", "--method", ""}, "join-dp", "chen"},
		{[]string{"curve", "--quantity", ""}, "throughput", "zoo:gpt2"},
		{[]string{"import", "--from", ""}, "rotor", "zoo:gpt2"},
		{[]string{"import", "--as", ""}, "graph", "join"},
		{[]string{"show", "--instance", "zoo:r"}, "zoo:rnn", "zoo:gpt2"},
		{[]string{"zoo", "export", "res"}, "resnet50", "zoo:resnet50"},
		{[]string{"formulation", "show", "ch"}, "chain-milp", "weights"},
		{[]string{"bench", "run", ""}, "nightly", "zoo:gpt2"},
		{[]string{"bench", "serve", "--quiet", "q"}, "quick", "nightly"},
		{[]string{"bench", "export", "night", "--format", ""}, "benchfmt", "text"},
	}
	for _, tt := range tests {
		got := candidates(app, tt.words)
		if !slices.Contains(got, tt.has) || slices.Contains(got, tt.not) {
			t.Errorf("%q: got %q; want %q among them and not %q", tt.words, got, tt.has, tt.not)
		}
	}
	for _, words := range [][]string{{"solve", "--memory", ""}, {"bench", "compare", ""}} {
		if got := candidates(app, words); got != nil {
			t.Errorf("%q: %q where a size or a file is needed", words, got)
		}
	}
}
