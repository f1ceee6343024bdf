package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/linear"
)

// PipeDream reads graph.txt of the PipeDream profiler: lines of nodes,
//
//	id -- description -- key=value, key=value, … [-- stage_id=INT]
//
// with times in milliseconds and sizes in bytes of a whole batch, and lines of
// edges, a tab and "id -- id". Nodes described as Input… hold the batch; their
// time is that of loading data, which is left out. Activations of in-place
// operations are counted as the file lists them. Name is for errors, which are
// of type *Error if they are about a line.
func PipeDream(data []byte, name string) (*chain.Chain, []string, error) {
	g, err := readPipeDream(string(data), name)
	if err != nil {
		return nil, nil, err
	}
	l, err := g.linearize()
	if err != nil {
		return nil, nil, err
	}
	l.chain.Source = map[string]any{
		"kind": "measured", "profiler": "pipedream", "device": "not recorded", "batch": "not recorded",
		"nodes": float64(len(g.nodes)), "edges": float64(len(g.edges)),
	}
	return l.chain, append(g.warnings, wholeBytes(l.chain.Sizes())...), nil
}

func readPipeDream(text, name string) (*graph, error) {
	g := &graph{file: name}
	byID := map[string]int{}
	type edge struct {
		from, to string
		line     int
	}
	var edges []edge
	line := 0
	for row := range strings.Lines(text) {
		line++
		row = strings.TrimRight(row, "\r\n")
		switch {
		case strings.TrimSpace(row) == "":
		case row[0] == '\t':
			from, to, ok := strings.Cut(row[1:], " -- ")
			from, to = strings.TrimSpace(from), strings.TrimSpace(to)
			if !ok || from == "" || to == "" {
				return nil, g.fail(line, "%q is no edge: a tab, then id -- id", row)
			}
			edges = append(edges, edge{from, to, line})
		default:
			id, err := g.pipeDreamNode(row, line)
			if err != nil {
				return nil, err
			}
			if k, twice := byID[id]; twice {
				return nil, g.fail(line, "node %s stands on line %d already", id, g.nodes[k].line)
			}
			byID[id] = len(g.nodes) - 1
		}
	}
	touched := make([]bool, len(g.nodes))
	for _, e := range edges {
		from, ok := byID[e.from]
		if !ok {
			return nil, g.fail(e.line, "there is no node %s", e.from)
		}
		to, ok := byID[e.to]
		if !ok {
			return nil, g.fail(e.line, "there is no node %s", e.to)
		}
		touched[from], touched[to] = true, true
		g.edges = append(g.edges, linear.Edge{From: from, To: to})
	}
	g.lines = func(edge int) int { return edges[edge].line }
	for v := range touched {
		if n := &g.nodes[v]; !touched[v] && len(g.nodes) > 1 {
			return nil, g.fail(n.line, "no edge leads to or from %s: has the file lost its end?", n.name)
		}
	}
	return g, nil
}

// pipeDreamNode reads the line of a node and returns its id.
func (g *graph) pipeDreamNode(row string, line int) (string, error) {
	// Descriptions contain commas, equals signs and runs of blanks, but never
	// the separator.
	fields := strings.Split(row, " -- ")
	if len(fields) < 3 || len(fields) > 4 || len(fields) == 4 && !strings.HasPrefix(fields[3], "stage_id=") {
		return "", g.fail(line, "%q is no node: id -- description -- forward_compute_time=…, …", clip(row))
	}
	id, description := strings.TrimSpace(fields[0]), strings.TrimSpace(fields[1])
	if id == "" {
		return "", g.fail(line, "the id of the node is missing")
	}
	n := node{id: id, name: strings.TrimSpace(id + " " + kindOf(description)), line: line, input: strings.HasPrefix(description, "Input")}
	into := [...]*float64{&n.forward, &n.backward, &n.output, &n.weight}
	var seen [len(into)]bool
	for _, pair := range strings.Split(fields[2], ", ") {
		key, text, ok := strings.Cut(pair, "=")
		if !ok {
			return "", g.fail(line, "%s: %q is not key=value", id, clip(pair))
		}
		k := slices.Index(pipeDreamKeys(), strings.TrimSpace(key))
		if k < 0 {
			continue // other versions of the profiler may write more
		}
		if seen[k] {
			return "", g.fail(line, "%s: %s stands twice", id, key)
		}
		x, err := sizes(text)
		if err != nil {
			return "", g.fail(line, "%s: %s: %v", id, key, err)
		}
		*into[k], seen[k] = x, true
	}
	for k, key := range pipeDreamKeys() {
		if !seen[k] {
			return "", g.fail(line, "%s: %s is missing", id, key)
		}
	}
	n.forward, n.backward = n.forward/1e3, n.backward/1e3
	if n.input {
		if n.forward+n.backward > 0 {
			g.warn("%s: %.4g s of loading data are left out", n.name, n.forward+n.backward)
		}
		n.forward, n.backward = 0, 0
	}
	g.nodes = append(g.nodes, n)
	return id, nil
}

func pipeDreamKeys() []string {
	return []string{"forward_compute_time", "backward_compute_time", "activation_size", "parameter_size"}
}

// sizes reads a number, or the sum of a list as [6291456.0; 131072.0].
func sizes(text string) (float64, error) {
	list, isList := strings.CutPrefix(text, "[")
	if isList {
		var closed bool
		if list, closed = strings.CutSuffix(list, "]"); !closed {
			return 0, fmt.Errorf("%q lacks its closing bracket", clip(text))
		}
	}
	total := 0.0
	for _, s := range strings.Split(list, ";") {
		x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if total += x; err != nil || !(x >= 0) || math.IsInf(total, 0) {
			return 0, fmt.Errorf("%q is not a finite number of at least 0, or a list of such in brackets", clip(text))
		}
	}
	return total, nil
}

// kindOf returns the operation of a description: what stands before its
// arguments.
func kindOf(description string) string {
	kind, _, _ := strings.Cut(description, "(")
	return strings.TrimSpace(kind)
}

// clip shortens what an error quotes.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
