package solve

import (
	"io"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/zoo"
)

// Format is a format of instance files.
type Format struct {
	Name string // the value of "format" in files
	Kind string // of instance
	Word string // the noun in a sentence: "a WORD is", "WORDs are"
	// Many is the plural if it is not Word followed by s.
	Many string
	Read func(r io.Reader, name string) (plan.Instance, error)
	// Zoo makes an instance from the rest of zoo:NAME?as=KIND; nil: networks have no such form.
	Zoo func(spec string) (plan.Instance, error)
}

// Formats returns the table of formats. A file that is no JSON object is read as the first, whose error says what is wrong.
// A network without as=KIND takes the first, too.
func Formats() []Format {
	return []Format{
		{Name: chain.Format, Kind: chain.Kind, Word: "chain", Read: reader(chain.Read), Zoo: maker(zoo.Load)},
		{Name: graph.Format, Kind: graph.Kind, Word: "graph", Read: reader(graph.Read), Zoo: maker(zoo.LoadGraph)},
		{
			Name: training.Format, Kind: training.Kind, Word: "training step",
			Read: reader(training.Read), Zoo: maker(zoo.LoadTraining),
		},
		{Name: join.Format, Kind: join.Kind, Word: "join", Read: reader(join.Read), Zoo: maker(zoo.LoadJoin)},
		{
			Name: functions.Format, Kind: functions.Kind, Word: "sequence of functions", Many: "sequences of functions",
			Read: reader(functions.Read), Zoo: maker(zoo.LoadFunctions),
		},
		{
			Name: lifetimes.Format, Kind: lifetimes.Kind, Word: "list of lifetimes", Many: "lists of lifetimes",
			Read: reader(lifetimes.Read), Zoo: maker(zoo.LoadLifetimes),
		},
		{
			Name: lifetimes.FormatV2, Kind: lifetimes.Kind, Word: "list of lifetimes", Many: "lists of lifetimes",
			Read: reader(lifetimes.ReadV2),
		},
		{
			Name: stages.Format, Kind: stages.Kind, Word: "partition into stages", Many: "partitions into stages",
			Read: reader(stages.Read), Zoo: maker(zoo.LoadStages),
		},
	}
}

func reader[T plan.Instance](read func(io.Reader, string) (T, error)) func(io.Reader, string) (plan.Instance, error) {
	return func(r io.Reader, name string) (plan.Instance, error) {
		in, err := read(r, name)
		if err != nil {
			return nil, err // not a nil of type T
		}
		return in, nil
	}
}

func maker[T plan.Instance](load func(string) (T, error)) func(string) (plan.Instance, error) {
	return func(spec string) (plan.Instance, error) {
		in, err := load(spec)
		if err != nil {
			return nil, err
		}
		return in, nil
	}
}

// KindWord returns the noun for a kind of instance: "a chain is", "a sequence of functions is".
func KindWord(kind string) string {
	for _, f := range Formats() {
		if f.Kind == kind {
			return f.Word
		}
	}
	return kind
}

// KindWords lists kinds of instance in words: "chains and graphs".
func KindWords(kinds []string) string {
	var s []string
	for _, f := range Formats() {
		many := f.Many
		if many == "" {
			many = f.Word + "s"
		}
		if slices.Contains(kinds, f.Kind) && !slices.Contains(s, many) {
			s = append(s, many)
		}
	}
	return strings.Join(s, " and ")
}
