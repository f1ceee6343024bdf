package solve

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"workbench/model/plan"
)

// LoadOf finds the instance of a plan: the one named by the user, else the source recorded in the plan, or a file
// of the same name there or in the plan's folder. Its digest must be the plan's. file is the path of the plan, "-"
// for standard input.
func LoadOf(p *plan.Plan, file, named string, stdin io.Reader) (*Instance, error) {
	if named != "" {
		in, err := Load(named, stdin)
		if err == nil {
			err = in.MadeFor(p, named)
		}
		return in, err
	}
	var first error
	for _, spec := range whereabouts(p, file) {
		in, err := Load(spec, stdin)
		if err == nil && in.made(p) {
			return in, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is another instance: its sha256 begins with %.12s, the plan's with %.12s", spec, in.SHA256, p.Instance.SHA256)
		}
		if first == nil {
			first = err
		}
	}
	return nil, InputError(fmt.Errorf("the instance %s of this plan is not found (%w): name it, to show with --instance FILE, to verify "+
		"before the plan, to place and export behind it; place writes that of a placement with --output", p.Instance.Name, first))
}

// MadeFor returns nil if the plan is of the instance, as far as the plan says; else an error that calls the
// instance by name.
func (in *Instance) MadeFor(p *plan.Plan, name string) error {
	if in.made(p) {
		return nil
	}
	return InputError(fmt.Errorf("%s is not the instance of this plan: its sha256 begins with %.12s, the plan's with %.12s", name, in.SHA256,
		p.Instance.SHA256))
}

// made reports whether the plan is of the instance, as far as the plan says.
func (in *Instance) made(p *plan.Plan) bool {
	return p.Instance.SHA256 == "" || p.Instance.SHA256 == in.SHA256
}

// whereabouts returns the possible paths of the instance of a plan, the most likely first.
func whereabouts(p *plan.Plan, file string) (list []string) {
	add := func(spec string) {
		if !slices.Contains(list, spec) {
			list = append(list, spec)
		}
	}
	folder := filepath.Dir(file)
	if source := p.Instance.Source; source != "" {
		add(source)
		add(filepath.Join(folder, filepath.Base(source)))
	}
	add(p.Instance.Name + ".json")
	add(filepath.Join(folder, p.Instance.Name+".json"))
	return list
}
