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
		{[]string{"solve", "--method", "g"}, "greedy", "l2l"},
		{[]string{"solve", "--backend", ""}, "lpsolve", "zoo:gpt2"},
		{[]string{"completion", ""}, "fish", "solve"},
		{[]string{"solve", "--memory", ""}, "zoo:gpt2", "solve"},
	}
	for _, tt := range tests {
		got := candidates(app, tt.words)
		if !slices.Contains(got, tt.has) || slices.Contains(got, tt.not) {
			t.Errorf("%q: got %q; want %q among them and not %q", tt.words, got, tt.has, tt.not)
		}
	}
}
