package shard

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/solve"
	"workbench/model/testfile"
)

// Every task is in exactly one shard.
func TestShardsAreAPartition(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		id := rapid.StringMatching("[0-9a-f]{24}").Draw(t, "id")
		in := 0
		for i := 1; i <= n; i++ {
			s := Shard{i, n}
			if s.Has(id) {
				in++
			}
			same := func(id string) string { return id }
			if kept := Keep(s, []string{id}, same); (len(kept) == 1) != s.Has(id) {
				t.Fatalf("%v keeps %v, has it: %v", s, kept, s.Has(id))
			}
			if again, err := Parse(s.String()); err != nil && !s.Whole() || err == nil && again != s {
				t.Fatalf("%q is %v, %v", s, again, err)
			}
		}
		if in != 1 {
			t.Fatalf("%s is in %d of %d shards", id, in, n)
		}
	})
}

// The hash is part of the command line: shards of different versions of the
// program must fit together. Expected values: FNV-1a by hand.
func TestShardsAreStable(t *testing.T) {
	for id, want := range map[string]int{
		"000000000000000000000000": 5, "0123456789abcdef01234567": 7, "ffffffffffffffffffffffff": 3,
	} {
		for i := 1; i <= 7; i++ {
			if got := (Shard{i, 7}).Has(id); got != (i == want) {
				t.Errorf("Has(%s) of %d/7 is %v", id, i, got)
			}
		}
	}
}

// Shards get about as many tasks each: within five standard deviations of the
// binomial distribution.
func TestShardsAreEven(t *testing.T) {
	const tasks = 20000
	for _, n := range []int{2, 3, 8, 16, 60} {
		count := make([]float64, n)
		for k := range tasks {
			id := fmt.Sprintf("%024x", k*2654435761)
			for i := range n {
				if (Shard{i + 1, n}).Has(id) {
					count[i]++
				}
			}
		}
		p := 1 / float64(n)
		for i, c := range count {
			if sigma := math.Sqrt(tasks * p * (1 - p)); math.Abs(c-tasks*p) > 5*sigma {
				t.Errorf("shard %d/%d has %v of %d tasks", i+1, n, c, tasks)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Shard{"1/1": {1, 1}, "2/16": {2, 16}, "16/16": {16, 16}} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", " 1/4", "1/-4"} {
		if s, err := Parse(text); !errors.Is(err, solve.ErrInput) || !strings.Contains(err.Error(), "shard") {
			t.Errorf("Parse(%q) = %v, %v", text, s, err)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	tests := []struct {
		name, env string
		want      Shard
		err       string
	}{
		{name: "nothing"},
		{
			name: "slurm", env: "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=16 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=1",
			want: Shard{4, 16},
		},
		{name: "slurm from one", env: "SLURM_ARRAY_TASK_ID=16 SLURM_ARRAY_TASK_COUNT=16 SLURM_ARRAY_TASK_MIN=1", want: Shard{16, 16}},
		{
			name: "slurm in steps", env: "SLURM_ARRAY_TASK_ID=8 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=4",
			want: Shard{3, 3},
		},
		{name: "slurm with holes", env: "SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1", err: "evenly"},
		{name: "slurm without count", env: "SLURM_ARRAY_TASK_ID=0", err: "COUNT=0"},
		{name: "slurm wrong", env: "SLURM_ARRAY_TASK_ID=x SLURM_ARRAY_TASK_COUNT=3", err: `"x"`},
		{name: "kubernetes", env: "JOB_COMPLETION_INDEX=0 WORKBENCH_SHARDS=8", want: Shard{1, 8}},
		{name: "kubernetes last", env: "JOB_COMPLETION_INDEX=7 WORKBENCH_SHARDS=8", want: Shard{8, 8}},
		{name: "kubernetes beyond", env: "JOB_COMPLETION_INDEX=8 WORKBENCH_SHARDS=8", err: "completions"},
		{name: "kubernetes without number", env: "JOB_COMPLETION_INDEX=0", err: "WORKBENCH_SHARDS"},
		{name: "only a number", env: "WORKBENCH_SHARDS=8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{}
			for _, kv := range strings.Fields(tt.env) {
				k, v, _ := strings.Cut(kv, "=")
				env[k] = v
			}
			s, source, err := FromEnvironment(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
			if tt.err != "" {
				if !errors.Is(err, solve.ErrInput) || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || s != tt.want || (source == "") != (s == Shard{}) {
				t.Errorf("got %v from %q, %v", s, source, err)
			}
		})
	}
}
