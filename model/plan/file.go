package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// maxBytes is the most a plan file may have: a wrong file is refused before it
// fills the memory.
const maxBytes = 1 << 30

// New returns a plan without operations for in, named and digested as files
// name it, in the unit of in, as m must be. An instance that is not valid has no
// digest.
func New(problem, method string, in Instance, m platform.Platform) *Plan {
	digest, err := in.Digest()
	if err != nil {
		digest = ""
	}
	if rules := RulesOf(problem); rules != nil && !rules.Link {
		m.Bandwidth = 0 // nothing is transferred
	}
	return &Plan{
		Format: Format, Problem: problem, Method: method, Instance: InstanceRef{Name: in.Title(), SHA256: digest}, Platform: m,
		Unit: in.Scale(),
	}
}

// Read reads a plan/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. Whether the plan keeps the rules of
// its problem is for package verify to say. O(size of the file).
func Read(r io.Reader, name string) (*Plan, error) {
	return strictjson.ReadFormat(r, name, Format, maxBytes, (*file).plan)
}

// Write writes p as a plan/v1 document, one operation a line. Numbers that are
// not finite are an error, for JSON has none, and so is what plans of the problem
// do not say.
func (p *Plan) Write(w io.Writer) error {
	if path, wrong := p.undeclared(); wrong != "" {
		return fmt.Errorf("plan cannot be written: %s: %s", path, wrong)
	}
	for k := range p.Ops {
		if o := &p.Ops[k]; !Finite(o.Start) || !Finite(o.End) {
			return fmt.Errorf("plan cannot be written: ops[%d], %s, runs from %g to %g", k, o, o.Start, o.End)
		}
	}
	// All but the operations, indented; then these in the place kept for them.
	shell := *p.Converted(platform.Byte)
	shell.Format, shell.Ops = Format, []Op{}
	head, err := json.MarshalIndent(&shell, "", "  ")
	if err != nil {
		return fmt.Errorf("plan cannot be written: %w", err)
	}
	b := bufio.NewWriter(w)
	before, after, _ := bytes.Cut(head, []byte("\n  \"ops\": []"))
	b.Write(before) // errors stay in b until Flush
	b.WriteString("\n  \"ops\": [")
	for k := range p.Ops {
		if k > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		line, err := json.Marshal(p.Ops[k].file())
		if err != nil {
			return fmt.Errorf("plan cannot be written: ops[%d]: %w", k, err)
		}
		b.Write(line)
	}
	if len(p.Ops) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteByte(']')
	b.Write(after)
	b.WriteByte('\n')
	return b.Flush()
}
