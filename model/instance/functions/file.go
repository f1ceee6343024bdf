package functions

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

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
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes, (*file).sequence)
}

// sequence fills in the defaults, takes sizes in units, finds the variables that
// functions name, and validates all of them.
func (f *file) sequence(extra []strictjson.Extra, unit platform.Unit) (*Sequence, error) {
	if f.Variables == nil {
		return nil, strictjson.Wrong("variables", "missing; it lists what functions use, and is [] if they use nothing")
	}
	s := &Sequence{
		Name: f.Name, Samples: f.Samples, Source: f.Source, Extra: extra, Unit: unit,
		Variables: make([]Variable, len(f.Variables)), Functions: make([]Function, len(f.Functions)),
	}
	names := strictjson.NewNames("variables", "variable", len(f.Variables))
	for v := range f.Variables {
		x := &f.Variables[v]
		path := fmt.Sprintf("variables[%d]", v)
		id, err := names.Read(v, x.ID)
		switch {
		case err != nil:
			return nil, err
		case x.Size == nil:
			return nil, strictjson.Wrong(path, "size is missing; variable %q needs one, in bytes", id)
		case x.Initial != nil && *x.Initial == Nowhere:
			return nil, strictjson.Wrong(path+".initial", "%s", initialMsg(*x.Initial))
		}
		s.Variables[v] = Variable{ID: id, Size: unit.FromBytes(float64(*x.Size))}
		if x.Initial != nil {
			s.Variables[v].Initial = *x.Initial
		}
	}
	if err := s.validateVariables(); err != nil {
		return nil, err
	}
	for i := range f.Functions {
		if err := f.Functions[i].read(&s.Functions[i], fmt.Sprintf("functions[%d]", i), names); err != nil {
			return nil, err
		}
	}
	if err := s.validateFunctions(); err != nil {
		return nil, err
	}
	return s, f.checkLast(s, names)
}

// find returns the variables that a list at path names.
func find(names *strictjson.Names, list []json.RawMessage, path string) (found []int, err error) {
	found = make([]int, len(list))
	for k, raw := range list {
		if found[k], err = names.Find(fmt.Sprintf("%s[%d]", path, k), raw); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// read fills in function g, which stands at path.
func (f *fileFunction) read(g *Function, path string, names *strictjson.Names) (err error) {
	switch {
	case f.Time == nil:
		return strictjson.Wrong(path, "time is missing; a function needs one, in seconds")
	case f.Uses == nil:
		return strictjson.Wrong(path, "uses is missing; it lists the ids of variables, and is [] if the function uses none")
	}
	g.Name, g.Time = f.Name, *f.Time
	if f.Kind != nil {
		g.Kind = *f.Kind
	}
	if g.Uses, err = find(names, f.Uses, path+".uses"); err != nil {
		return err
	}
	if f.Writes == nil {
		g.Writes = slices.Clone(g.Uses)
		return nil
	}
	g.Writes, err = find(names, *f.Writes, path+".writes")
	return err
}

// checkLast compares what functions list as last with the uses.
func (f *file) checkLast(s *Sequence, names *strictjson.Names) error {
	var after, listed []int // listed: in which function, counted from 1
	for i := range f.Functions {
		if f.Functions[i].Last == nil {
			continue
		}
		if after == nil {
			after, listed = s.LastUse(), make([]int, len(s.Variables))
		}
		path := fmt.Sprintf("functions[%d].last", i)
		last, err := find(names, *f.Functions[i].Last, path)
		if err != nil {
			return err
		}
		for k, v := range last {
			at, id := fmt.Sprintf("%s[%d]", path, k), s.Variables[v].ID
			switch {
			case listed[v] == i+1:
				return strictjson.Wrong(at, "%q is listed twice", id)
			case after[v] != i:
				return strictjson.Wrong(at, "the last use of %q is in functions[%d]", id, after[v])
			}
			listed[v] = i + 1
		}
		for _, v := range s.Functions[i].Uses {
			if after[v] == i && listed[v] != i+1 {
				return strictjson.Wrong(path, "%q is missing, which no later function uses; last may be left out as a whole", s.Variables[v].ID)
			}
		}
	}
	return nil
}

// Validate checks that there is a function, that ids differ, that every number
// is finite and not negative, that sizes are whole numbers of units whose sums
// are exact ([platform.MaxTotal]), that functions use variables that there are, each
// once, and write only what they use, and that each variable is used. The error
// is a *strictjson.FieldError. O(functions + variables + uses).
func (s *Sequence) Validate() error {
	if err := s.validateVariables(); err != nil {
		return err
	}
	return s.validateFunctions()
}

func (s *Sequence) validateVariables() error {
	if s.Samples < 0 {
		return strictjson.Wrong("samples", "%d is negative; leave it out if it is unknown", s.Samples)
	}
	seen := strictjson.NewNames("variables", "variable", len(s.Variables))
	total := 0.0
	for v := range s.Variables {
		x := &s.Variables[v]
		if err := seen.Add(v, x.ID); err != nil {
			return err
		}
		if x.Initial != Nowhere && x.Initial != Host && x.Initial != Device {
			return strictjson.Wrong(fmt.Sprintf("variables[%d].initial", v), "%s", initialMsg(x.Initial))
		}
		if err := strictjson.CheckSize(func() string { return fmt.Sprintf("variables[%d].size", v) }, x.Size, s.Unit); err != nil {
			return err
		}
		total += x.Size
	}
	return strictjson.CheckTotal("variables", total, s.Unit)
}

func initialMsg(initial string) string {
	return fmt.Sprintf("%q is unknown; it is %q or %q, or left out for a variable that the first function using it makes", initial, Host,
		Device)
}

func (s *Sequence) validateFunctions() error {
	if len(s.Functions) == 0 {
		return strictjson.Wrong("functions", "a sequence needs at least one function")
	}
	// The function that used or wrote a variable last, counted from 1.
	used, written := make([]int, len(s.Variables)), make([]int, len(s.Variables))
	for i := range s.Functions {
		f := &s.Functions[i]
		if f.Kind != Unknown && f.Kind != Forward && f.Kind != Loss && f.Kind != Backward {
			return strictjson.Wrong(fmt.Sprintf("functions[%d].kind", i), "%q is unknown; it is %q, %q or %q, or left out", f.Kind, Forward, Loss,
				Backward)
		}
		if err := strictjson.CheckTime("functions", i, "time", f.Time); err != nil {
			return err
		}
		for k, v := range f.Uses {
			path := func() string { return fmt.Sprintf("functions[%d].uses[%d]", i, k) }
			switch {
			case v < 0 || v >= len(s.Variables):
				return strictjson.Wrong(path(), "is variable %d; there are variables 0 to %d", v, len(s.Variables)-1)
			case used[v] == i+1:
				return strictjson.Wrong(path(), "%q is listed twice", s.Variables[v].ID)
			}
			used[v] = i + 1
		}
		for k, v := range f.Writes {
			path := func() string { return fmt.Sprintf("functions[%d].writes[%d]", i, k) }
			switch {
			case v < 0 || v >= len(s.Variables):
				return strictjson.Wrong(path(), "is variable %d; there are variables 0 to %d", v, len(s.Variables)-1)
			case used[v] != i+1:
				return strictjson.Wrong(path(), "%q is not among what the function uses", s.Variables[v].ID)
			case written[v] == i+1:
				return strictjson.Wrong(path(), "%q is listed twice", s.Variables[v].ID)
			}
			written[v] = i + 1
		}
	}
	if v := slices.Index(used, 0); v >= 0 {
		return strictjson.Wrong(fmt.Sprintf("variables[%d]", v), "no function uses %q; leave it out", s.Variables[v].ID)
	}
	return nil
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if s
// is valid.
func (s *Sequence) canonical() (*file, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, s.Name), err)
	}
	f := &file{
		Format: Format, Name: s.Name, Samples: s.Samples,
		Variables: make([]fileVariable, len(s.Variables)), Functions: make([]fileFunction, len(s.Functions)),
	}
	ids := strictjson.IDs(len(s.Variables), func(v int) string { return s.Variables[v].ID })
	for v := range s.Variables {
		x := &s.Variables[v]
		size := strictjson.Bytes(s.Unit, x.Size)
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
		times[i] = x.Time + 0.0
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
	return out.Close(s.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. The uses count in
// their order. s must be valid.
func (s *Sequence) Digest() (string, error) {
	return strictjson.Digest(s.canonical())
}
