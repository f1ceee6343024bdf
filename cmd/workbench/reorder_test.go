package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReorder(t *testing.T) {
	app := newApp(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}})
	tests := []struct {
		name, in, want string // words separated by blanks
		err            string // part of the error, if one is expected
	}{
		{name: "nothing", in: "workbench", want: "workbench"},
		{name: "flags first", in: "workbench solve --memory 3 a.json", want: "workbench solve --memory 3 -- a.json"},
		{name: "flags last", in: "workbench solve a.json --memory 3", want: "workbench solve --memory 3 -- a.json"},
		{name: "flags around", in: "workbench solve --seed=1 a.json --quiet", want: "workbench solve --seed=1 --quiet -- a.json"},
		{name: "a boolean takes no value", in: "workbench solve --quiet a.json", want: "workbench solve --quiet -- a.json"},
		{name: "flag before the command", in: "workbench --format json solve a.json", want: "workbench solve --format json -- a.json"},
		{name: "value that looks like a command", in: "workbench --timeline solve compare", err: "unknown flag --timeline"},
		{name: "subcommand", in: "workbench zoo show gpt2 --format json", want: "workbench zoo show --format json -- gpt2"},
		{name: "instance named as a command", in: "workbench solve zoo", want: "workbench solve -- zoo"},
		{name: "standard input", in: "workbench solve - -m 3", want: "workbench solve -m 3 -- -"},
		{name: "after two dashes all are arguments", in: "workbench solve -- --memory", want: "workbench solve -- --memory"},
		{name: "unknown", in: "workbench solve a.json --memroy 3", err: "did you mean --memory?"},
		{name: "flag of another command", in: "workbench solve a.json --timeline x.svg", err: "unknown flag --timeline"},
		{name: "missing value", in: "workbench solve a.json --memory", err: "a value is needed after --memory"},
		{name: "a negative value", in: "workbench solve a.json --memory -5", want: "workbench solve --memory -5 -- a.json"},
		{name: "help beside arguments", in: "workbench solve a.json --memory 3 -h", want: "workbench solve --help"},
		{name: "help about no command", in: "workbench slove --help", want: "workbench -- slove"},
		{name: "help about no subcommand", in: "workbench zoo lits -h", want: "workbench zoo -- lits"},
		{name: "help after two dashes", in: "workbench solve -- --help", want: "workbench solve -- --help"},
		{name: "flag behind an unknown command", in: "workbench slove a.json --memory 3", want: "workbench -- slove"},
		{name: "unknown without a command", in: "workbench --memory 3", err: "unknown flag --memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := reorder(app, strings.Fields(tt.in))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v does not contain %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
