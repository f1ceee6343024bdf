package functions

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// maxBytes is the most a file of functions may have: a wrong file is refused
// before it fills the memory.
const maxBytes = 256 << 20

// file and its parts mirror the format. Nil fields take their defaults or, if
// they have none, are missing; "omitempty" keeps null out of them. Ids are
// texts or whole numbers.
type file struct {
	Format    string         `json:"format"`
	Name      string         `json:"name"`
	Samples   int            `json:"samples,omitempty"`
	Variables []fileVariable `json:"variables"`
	Functions []fileFunction `json:"functions"`
	Source    map[string]any `json:"source,omitempty"`
}

type fileVariable struct {
	ID      json.RawMessage  `json:"id,omitempty"`
	Size    *strictjson.Size `json:"size,omitempty"`
	Initial *string          `json:"initial,omitempty"`
}

type fileFunction struct {
	Name   string             `json:"name"`
	Kind   *string            `json:"kind,omitempty"`
	Time   *float64           `json:"time,omitempty"`
	Uses   []json.RawMessage  `json:"uses"`
	Writes *[]json.RawMessage `json:"writes,omitempty"`
	Last   *[]json.RawMessage `json:"last,omitempty"`
}

// Read reads a functions/v1 document. Name is for errors, which say the file,
// the line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Sequence, error) {
	return strictjson.ReadSizes(r, name, Format, maxBytes, (*file).sequence)
}

// sequence fills in the defaults, takes sizes in units, finds the variables that
// functions name, and validates all of them.
func (f *file) sequence(extra []strictjson.Extra, unit platform.Unit) (*Sequence, error) {
	if f.Variables == nil {
		return nil, &FieldError{Path: "variables", Msg: "missing; it lists what functions use, and is [] if they use nothing"}
	}
	s := &Sequence{
		Name: f.Name, Samples: f.Samples, Source: f.Source, Extra: extra, Unit: unit,
		Variables: make([]Variable, len(f.Variables)), Functions: make([]Function, len(f.Functions)),
	}
	ids := make(idsOf, len(f.Variables))
	for v := range f.Variables {
		x := &f.Variables[v]
		path := fmt.Sprintf("variables[%d]", v)
		if x.ID == nil {
			return nil, &FieldError{Path: path, Msg: "id is missing"}
		}
		id, err := strictjson.ReadID(x.ID)
		switch {
		case err != nil:
			return nil, &FieldError{Path: path + ".id", Msg: err.Error()}
		case x.Size == nil:
			return nil, &FieldError{Path: path, Msg: fmt.Sprintf("size is missing; variable %q needs one, in bytes", id)}
		case x.Initial != nil && *x.Initial == Nowhere:
			return nil, &FieldError{Path: path + ".initial", Msg: initialMsg(*x.Initial)}
		}
		s.Variables[v] = Variable{ID: id, Size: unit.FromBytes(float64(*x.Size))}
		if x.Initial != nil {
			s.Variables[v].Initial = *x.Initial
		}
		ids[id] = v
	}
	if err := s.validateVariables(); err != nil {
		return nil, err
	}
	for i := range f.Functions {
		if err := f.Functions[i].read(&s.Functions[i], fmt.Sprintf("functions[%d]", i), ids); err != nil {
			return nil, err
		}
	}
	if err := s.validateFunctions(); err != nil {
		return nil, err
	}
	return s, f.checkLast(s, ids)
}

// idsOf finds variables by their ids.
type idsOf map[string]int

// find returns the variables that a list at path names.
func (ids idsOf) find(list []json.RawMessage, path string) ([]int, error) {
	found := make([]int, len(list))
	for k, raw := range list {
		id, err := strictjson.ReadID(raw)
		v, ok := ids[id]
		if err == nil && !ok {
			err = fmt.Errorf("there is no variable with id %q", id)
		}
		if err != nil {
			return nil, &FieldError{Path: fmt.Sprintf("%s[%d]", path, k), Msg: err.Error()}
		}
		found[k] = v
	}
	return found, nil
}

// read fills in function g, which stands at path.
func (f *fileFunction) read(g *Function, path string, ids idsOf) (err error) {
	switch {
	case f.Time == nil:
		return &FieldError{Path: path, Msg: "time is missing; a function needs one, in seconds"}
	case f.Uses == nil:
		return &FieldError{Path: path, Msg: "uses is missing; it lists the ids of variables, and is [] if the function uses none"}
	}
	g.Name, g.Time = f.Name, *f.Time
	if f.Kind != nil {
		g.Kind = *f.Kind
	}
	if g.Uses, err = ids.find(f.Uses, path+".uses"); err != nil {
		return err
	}
	if f.Writes == nil {
		g.Writes = slices.Clone(g.Uses)
		return nil
	}
	g.Writes, err = ids.find(*f.Writes, path+".writes")
	return err
}

// checkLast compares what functions list as last with the uses.
func (f *file) checkLast(s *Sequence, ids idsOf) error {
	var after, listed []int // listed: in which function, counted from 1
	for i := range f.Functions {
		if f.Functions[i].Last == nil {
			continue
		}
		if after == nil {
			after, listed = s.LastUse(), make([]int, len(s.Variables))
		}
		path := fmt.Sprintf("functions[%d].last", i)
		last, err := ids.find(*f.Functions[i].Last, path)
		if err != nil {
			return err
		}
		for k, v := range last {
			at, id := fmt.Sprintf("%s[%d]", path, k), s.Variables[v].ID
			switch {
			case listed[v] == i+1:
				return &FieldError{Path: at, Msg: fmt.Sprintf("%q is listed twice", id)}
			case after[v] != i:
				return &FieldError{Path: at, Msg: fmt.Sprintf("the last use of %q is in functions[%d]", id, after[v])}
			}
			listed[v] = i + 1
		}
		for _, v := range s.Functions[i].Uses {
			if after[v] == i && listed[v] != i+1 {
				return &FieldError{Path: path, Msg: fmt.Sprintf("%q is missing, which no later function uses; last may be left out as a whole", s.Variables[v].ID)}
			}
		}
	}
	return nil
}

// FieldError is a value that a sequence may not have.
type FieldError = strictjson.FieldError

// Validate checks that there is a function, that ids differ, that every number
// is finite and not negative, that sizes are whole numbers of units whose sums
// are exact ([platform.MaxTotal]), that functions use variables that there are, each
// once, and write only what they use, and that each variable is used. The error
// is a *FieldError. O(functions + variables + uses).
func (s *Sequence) Validate() error {
	if err := s.validateVariables(); err != nil {
		return err
	}
	return s.validateFunctions()
}

func (s *Sequence) validateVariables() error {
	if s.Samples < 0 {
		return &FieldError{Path: "samples", Msg: fmt.Sprintf("%d is negative; leave it out if it is unknown", s.Samples)}
	}
	ids := make(idsOf, len(s.Variables))
	total := 0.0
	for v := range s.Variables {
		x := &s.Variables[v]
		if x.ID == "" {
			return &FieldError{Path: fmt.Sprintf("variables[%d].id", v), Msg: "the id is empty"}
		}
		if x.Initial != Nowhere && x.Initial != Host && x.Initial != Device {
			return &FieldError{Path: fmt.Sprintf("variables[%d].initial", v), Msg: initialMsg(x.Initial)}
		}
		if err := strictjson.CheckSize(func() string { return fmt.Sprintf("variables[%d].size", v) }, x.Size, s.Unit); err != nil {
			return err
		}
		total += x.Size
		if u, twice := ids[x.ID]; twice {
			return &FieldError{Path: fmt.Sprintf("variables[%d].id", v), Msg: fmt.Sprintf("%q is the id of variables[%d] already", x.ID, u)}
		}
		ids[x.ID] = v
	}
	return strictjson.CheckTotal("variables", total, s.Unit)
}

func initialMsg(initial string) string {
	return fmt.Sprintf("%q is unknown; it is %q or %q, or left out for a variable that the first function using it makes", initial, Host, Device)
}

func (s *Sequence) validateFunctions() error {
	if len(s.Functions) == 0 {
		return &FieldError{Path: "functions", Msg: "a sequence needs at least one function"}
	}
	// The function that used or wrote a variable last, counted from 1.
	used, written := make([]int, len(s.Variables)), make([]int, len(s.Variables))
	for i := range s.Functions {
		f := &s.Functions[i]
		if f.Kind != Unknown && f.Kind != Forward && f.Kind != Loss && f.Kind != Backward {
			return &FieldError{
				Path: fmt.Sprintf("functions[%d].kind", i),
				Msg:  fmt.Sprintf("%q is unknown; it is %q, %q or %q, or left out", f.Kind, Forward, Loss, Backward),
			}
		}
		if !(f.Time >= 0) || math.IsInf(f.Time, 1) {
			return strictjson.CheckAmount(fmt.Sprintf("functions[%d].time", i), f.Time)
		}
		for k, v := range f.Uses {
			path := func() string { return fmt.Sprintf("functions[%d].uses[%d]", i, k) }
			switch {
			case v < 0 || v >= len(s.Variables):
				return &FieldError{Path: path(), Msg: fmt.Sprintf("is variable %d; there are variables 0 to %d", v, len(s.Variables)-1)}
			case used[v] == i+1:
				return &FieldError{Path: path(), Msg: fmt.Sprintf("%q is listed twice", s.Variables[v].ID)}
			}
			used[v] = i + 1
		}
		for k, v := range f.Writes {
			path := func() string { return fmt.Sprintf("functions[%d].writes[%d]", i, k) }
			switch {
			case v < 0 || v >= len(s.Variables):
				return &FieldError{Path: path(), Msg: fmt.Sprintf("is variable %d; there are variables 0 to %d", v, len(s.Variables)-1)}
			case used[v] != i+1:
				return &FieldError{Path: path(), Msg: fmt.Sprintf("%q is not among what the function uses", s.Variables[v].ID)}
			case written[v] == i+1:
				return &FieldError{Path: path(), Msg: fmt.Sprintf("%q is listed twice", s.Variables[v].ID)}
			}
			written[v] = i + 1
		}
	}
	if v := slices.Index(used, 0); v >= 0 {
		return &FieldError{Path: fmt.Sprintf("variables[%d]", v), Msg: fmt.Sprintf("no function uses %q; leave it out", s.Variables[v].ID)}
	}
	return nil
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if s
// is valid.
func (s *Sequence) canonical() (*file, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("functions %s: %w", s.Name, err)
	}
	const plus = 0.0 // -0 + 0 is 0
	f := &file{
		Format: Format, Name: s.Name, Samples: s.Samples, Source: s.Source,
		Variables: make([]fileVariable, len(s.Variables)), Functions: make([]fileFunction, len(s.Functions)),
	}
	ids := strictjson.IDs(len(s.Variables), func(v int) string { return s.Variables[v].ID })
	for v := range s.Variables {
		x := &s.Variables[v]
		size := strictjson.Size(s.Unit.Bytes(x.Size) + plus)
		f.Variables[v] = fileVariable{ID: ids[v], Size: &size}
		if x.Initial != Nowhere {
			f.Variables[v].Initial = &x.Initial
		}
	}
	list := func(variables []int, keep func(v int) bool) *[]json.RawMessage {
		some := make([]json.RawMessage, 0, len(variables))
		for _, v := range variables {
			if keep(v) {
				some = append(some, ids[v])
			}
		}
		return &some
	}
	all := func(int) bool { return true }
	last, times := s.LastUse(), make([]float64, len(s.Functions))
	for i := range s.Functions {
		x := &s.Functions[i]
		times[i] = x.Time + plus
		f.Functions[i] = fileFunction{
			Name: x.Name, Time: &times[i], Uses: *list(x.Uses, all), Writes: list(x.Written(), all),
			Last: list(x.Uses, func(v int) bool { return last[v] == i }),
		}
		if x.Kind != Unknown {
			f.Functions[i].Kind = &x.Kind
		}
	}
	return f, nil
}

// Write writes s as a functions/v1 document, a line for each variable and
// function, with every default spelt out; ids as numbers if all of them are. s
// must be valid.
func (s *Sequence) Write(w io.Writer) error {
	f, err := s.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, s.Extra)
	out.Count("samples", f.Samples)
	out.List("variables", len(f.Variables), func(v int) { out.Object(&f.Variables[v]) })
	out.List("functions", len(f.Functions), func(i int) { out.Object(&f.Functions[i]) })
	if err := out.Close(f.Source); err != nil {
		return fmt.Errorf("functions %s: %w", s.Name, err)
	}
	return nil
}

// Digest returns the SHA-256, in hexadecimal, of the canonical JSON: compact,
// every default spelt out, fields in the order of the format, and without
// "source", which says where the numbers come from and not what they are, and
// fields of the user's own. The uses count in their order. s must be valid.
func (s *Sequence) Digest() (string, error) {
	f, err := s.canonical()
	if err != nil {
		return "", err
	}
	f.Source = nil
	return strictjson.Digest(f)
}
