package lifetimes

import (
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// MaxInstant is the largest instant, in either direction: every reader of JSON
// takes it to the unit.
const MaxInstant = 1<<53 - 1

// file and its parts mirror the format. Nil fields are missing. Ids are texts or
// whole numbers.
type file struct {
	Format  string         `json:"format"`
	Name    string         `json:"name"`
	Align   *int64         `json:"align,omitempty"`
	Buffers []fileBuffer   `json:"buffers"`
	Source  map[string]any `json:"source,omitempty"`
}

type fileBuffer struct {
	ID    json.RawMessage  `json:"id,omitempty"`
	Lower *int64           `json:"lower,omitempty"`
	Upper *int64           `json:"upper,omitempty"`
	Size  *strictjson.Size `json:"size,omitempty"`
}

// Read reads a lifetimes/v1 document. Name is for errors, which say the file,
// the line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Lifetimes, error) {
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes, (*file).lifetimes)
}

// lifetimes takes sizes in units and validates.
func (f *file) lifetimes(extra []strictjson.Extra, unit platform.Unit) (*Lifetimes, error) {
	l := &Lifetimes{Name: f.Name, Source: f.Source, Extra: extra, Unit: unit, Buffers: make([]Buffer, len(f.Buffers))}
	names := strictjson.NewNames("buffers", "buffer", len(f.Buffers))
	if f.Align != nil {
		if *f.Align < 1 {
			return nil, strictjson.Wrong("align", "%d; addresses are multiples of 1 byte or more", *f.Align)
		}
		l.Align = *f.Align
		if l.Align == 1 {
			l.Align = 0 // there is one way to say it
		}
	}
	for i := range f.Buffers {
		x, path := &f.Buffers[i], fmt.Sprintf("buffers[%d]", i)
		id, err := names.Read(i, x.ID)
		switch {
		case err != nil:
			return nil, err
		case x.Lower == nil || x.Upper == nil:
			return nil, strictjson.Wrong(path, "lower or upper is missing; buffer %q lives from lower up to upper, the latter excluded", id)
		case x.Size == nil:
			return nil, strictjson.Wrong(path, "size is missing; buffer %q needs one, in bytes", id)
		}
		l.Buffers[i] = Buffer{ID: id, Lower: *x.Lower, Upper: *x.Upper, Size: unit.FromBytes(float64(*x.Size))}
	}
	return l, l.Validate()
}

// Validate checks that there is a buffer, that ids differ, that every lifetime
// holds an instant and lies within [MaxInstant], and that sizes are whole numbers
// of units whose sums, and what is lost by the alignment, are exact
// ([platform.MaxTotal]). The error is a *strictjson.FieldError.
// O(buffers).
func (l *Lifetimes) Validate() error {
	if len(l.Buffers) == 0 {
		return strictjson.Wrong("buffers", "there has to be at least one buffer")
	}
	seen := strictjson.NewNames("buffers", "buffer", len(l.Buffers))
	total := 0.0
	for i := range l.Buffers {
		x := &l.Buffers[i]
		at := func(field string) string { return fmt.Sprintf("buffers[%d].%s", i, field) }
		if err := seen.Add(i, x.ID); err != nil {
			return err
		}
		switch {
		case x.Lower < -MaxInstant || x.Upper > MaxInstant:
			return strictjson.Wrong(at("lower"), "the lifetime of buffer %q, [%d, %d), leaves ±%d", x.ID, x.Lower, x.Upper, int64(MaxInstant))
		case x.Lower >= x.Upper:
			return strictjson.Wrong(at("upper"), "%d is not after lower, %d: buffer %q does not live", x.Upper, x.Lower, x.ID)
		}
		if err := strictjson.CheckSize(func() string { return at("size") }, x.Size, l.Unit); err != nil {
			return err
		}
		total += x.Size
	}
	if lost := float64(l.Align) * l.Unit.PerByte() * float64(len(l.Buffers)); l.Align < 0 || lost >= platform.MaxTotal {
		return strictjson.Wrong("align", "%d for %d buffers: it is at least 1 byte, and what is lost by it stays below %g units", l.Align, len(l.Buffers), platform.MaxTotal)
	}
	return strictjson.CheckTotal("buffers", total, l.Unit)
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if l
// is valid.
func (l *Lifetimes) canonical() (*file, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, l.Name), err)
	}
	f := &file{Format: Format, Name: l.Name, Buffers: make([]fileBuffer, len(l.Buffers))}
	if l.Align > 1 {
		f.Align = &l.Align
	}
	ids := strictjson.IDs(len(l.Buffers), func(i int) string { return l.Buffers[i].ID })
	for i := range l.Buffers {
		x := &l.Buffers[i]
		size := strictjson.Bytes(l.Unit, x.Size)
		f.Buffers[i] = fileBuffer{ID: ids[i], Lower: &x.Lower, Upper: &x.Upper, Size: &size}
	}
	return f, nil
}

// Write writes l as a lifetimes/v1 document, a line for each buffer; ids as
// numbers if all of them are. l must be valid.
func (l *Lifetimes) Write(w io.Writer) error {
	f, err := l.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, l.Extra)
	if f.Align != nil {
		out.Member("align", f.Align)
	}
	out.List("buffers", len(f.Buffers), func(i int) { out.Object(&f.Buffers[i]) })
	return out.Close(l.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. l must be valid.
func (l *Lifetimes) Digest() (string, error) {
	return strictjson.Digest(l.canonical())
}
