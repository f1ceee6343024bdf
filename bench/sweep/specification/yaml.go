package specification

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"workbench/bench/solve"
	"workbench/model/nearest"
)

// Error is one error in a specification.
type Error struct {
	File         string
	Line, Column int // from 1
	Msg          string
}

func (e Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Unwrap marks every error as a user error.
func (e Error) Unwrap() error { return solve.ErrInput }

// mostErrors limits the number of reported errors.
const mostErrors = 20

// reader walks a YAML document and collects errors.
type reader struct {
	file    string
	anchors map[string]ast.Node
	errs    []Error
}

// value is a scalar with its position.
type value struct {
	text string
	node ast.Node
}

func (r *reader) errorf(n ast.Node, format string, args ...any) {
	e := Error{File: r.file, Line: 1, Column: 1, Msg: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil {
		e.Line, e.Column = start(n)
	}
	r.errs = append(r.errs, e)
}

// start returns the position of a node: the token of a mapping is its first colon.
func start(n ast.Node) (line, column int) {
	switch x := n.(type) {
	case *ast.MappingNode:
		if len(x.Values) > 0 && !x.IsFlowStyle {
			return start(x.Values[0])
		}
	case *ast.MappingValueNode:
		return start(x.Key)
	}
	p := n.GetToken().Position
	return p.Line, p.Column
}

// err returns the collected errors, in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	r.errs = slices.Compact(r.errs)
	var all []error
	for i, e := range r.errs {
		if i == mostErrors {
			all = append(all, solve.InputError(fmt.Errorf("%s: and %d more", r.file, len(r.errs)-i)))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// parse reads a file of one document and returns its root, nil for an error.
func (r *reader) parse(text []byte) (root ast.Node) {
	defer func() {
		if p := recover(); p != nil { // a bug of the parser must not crash the program
			root = nil
			r.errorf(nil, "cannot be read as YAML: %v", p)
		}
	}()
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			p := at.GetToken().Position
			r.errs = append(r.errs, Error{r.file, p.Line, p.Column, at.GetMessage()})
		} else {
			r.errorf(nil, "%v", err)
		}
		return nil
	}
	for _, d := range f.Docs {
		switch {
		case d.Body == nil:
		case root == nil:
			root = d.Body
		default:
			r.errorf(d.Body, "a second document: one file is one sweep")
			return nil
		}
	}
	if root == nil {
		r.errorf(nil, "is empty: a specification has at least name and experiments, see workbench bench run --help")
		return nil
	}
	r.anchors = map[string]ast.Node{}
	ast.Walk(anchors(r.anchors), root)
	return root
}

// anchors collects the anchored values by name.
type anchors map[string]ast.Node

// Visit implements [ast.Visitor].
func (a anchors) Visit(n ast.Node) ast.Visitor {
	if x, ok := n.(*ast.AnchorNode); ok && x.Name != nil {
		a[x.Name.String()] = x.Value
	}
	return a
}

// mostAliases limits the length of a chain of aliases.
const mostAliases = 16

// resolve returns the value of a node behind aliases and anchors, nil after an error.
func (r *reader) resolve(n ast.Node) ast.Node {
	for range mostAliases {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.TagNode:
			n = x.Value
		case *ast.AliasNode:
			named, ok := r.anchors[x.Value.String()]
			if !ok {
				r.errorf(n, "no value has the name &%s", x.Value.String())
				return nil
			}
			n = named
		default:
			return n
		}
	}
	r.errorf(n, "aliases of aliases of aliases: too many, or in a circle")
	return nil
}

// fields calls the function of each key of a mapping. Unknown keys are errors, except those that begin with x-.
// needed lists the required keys.
func (r *reader) fields(n ast.Node, what string, known map[string]func(ast.Node), needed ...string) {
	pairs, ok := r.pairs(n, what)
	if !ok {
		return
	}
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[string]bool{}
	for _, p := range pairs {
		seen[p.key] = true
		switch f, ok := known[p.key]; {
		case strings.HasPrefix(p.key, "x-"):
		case !ok:
			r.errorf(p.node, "unknown key %q of %s: %s", p.key, what, nearest.Hint(p.key, names))
		case p.value == nil || p.value.Type() == ast.NullType:
			r.errorf(p.node, "%s has no value", p.key)
		default:
			f(p.value)
		}
	}
	for _, name := range needed {
		if !seen[name] {
			r.errorf(n, "%s has no %s", what, name)
		}
	}
}

// pair is a key of a mapping with its value.
type pair struct {
	key         string
	node, value ast.Node
}

func (r *reader) pairs(n ast.Node, what string) ([]pair, bool) {
	resolved := r.resolve(n)
	var values []*ast.MappingValueNode
	switch x := resolved.(type) {
	case nil:
		return nil, false
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		r.errorf(n, "%s must be keys and values, as name: value", what)
		return nil, false
	}
	var list []pair
	for _, v := range values {
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			r.errorf(v.Key, "<< is not supported: keys next to experiments are the defaults of all of them")
			continue
		}
		p := pair{key: v.Key.String(), node: v.Key, value: r.resolve(v.Value)}
		if s, ok := v.Key.(*ast.StringNode); ok {
			p.key = s.Value
		}
		list = append(list, p)
	}
	return list, true
}

// scalar returns the text of a value that is neither list nor mapping.
func (r *reader) scalar(n ast.Node) (value, bool) {
	switch x := r.resolve(n).(type) {
	case nil:
		return value{}, false
	case *ast.StringNode:
		return value{x.Value, n}, true
	case *ast.LiteralNode:
		return value{strings.TrimSpace(x.Value.Value), n}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return value{strings.TrimSpace(x.GetToken().Value), n}, true
	case *ast.InfinityNode, *ast.NanNode:
		r.errorf(n, "%s: a finite number is needed", x.GetToken().Value)
	case *ast.NullNode:
		r.errorf(n, "a value is missing")
	default:
		r.errorf(n, "one value is needed, no list and no mapping")
	}
	return value{}, false
}

// nodes returns the elements of a list, or a single value as a list of one. An empty list is an error.
func (r *reader) nodes(n ast.Node, what string) []ast.Node {
	list, ok := r.resolve(n).(*ast.SequenceNode)
	if !ok {
		return []ast.Node{n}
	}
	if len(list.Values) == 0 {
		r.errorf(n, "%s: the list is empty, so there is nothing to run: leave the key out for its default", what)
	}
	return list.Values
}

// scalars is nodes for lists of scalars.
func (r *reader) scalars(n ast.Node, what string) (list []value) {
	for _, x := range r.nodes(n, what) {
		if v, ok := r.scalar(x); ok {
			list = append(list, v)
		}
	}
	return list
}
