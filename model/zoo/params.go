package zoo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"workbench/model/nearest"
)

// values are the resolved parameters of one network.
type values struct {
	numbers map[string]int
	words   map[string]string
}

// text returns a value as written.
func (v values) text(name string) string {
	if w, ok := v.words[name]; ok {
		return w
	}
	return strconv.Itoa(v.numbers[name])
}

// appliesTo reports whether p is a parameter of that form.
func (p *Param) appliesTo(form string) bool { return p.Forms == nil || slices.Contains(p.Forms, form) }

// resolve checks p against the entry and applies defaults. A default may be a number, a word, or "name/number", a
// fraction of an earlier parameter.
func (e *Entry) resolve(p Params, form string) (values, error) {
	v := values{map[string]int{}, map[string]string{}}
	var known []string
	for i := range e.Parameters {
		spec := &e.Parameters[i]
		if spec.appliesTo(form) {
			known = append(known, spec.Name)
		} else if _, ok := p[spec.Name]; ok {
			return v, fmt.Errorf("%s is a parameter for as=%s, not for as=%s", spec.Name, strings.Join(spec.Forms, " or as="), form)
		}
	}
	if word, ok := p["as"]; ok {
		return v, fmt.Errorf("as: %q is not a form, or given twice; %s", word, nearest.Hint(word, e.Forms))
	}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(known, key) {
			return v, fmt.Errorf("unknown parameter %q; %s", key, nearest.Hint(key, known))
		}
	}
	for i := range e.Parameters {
		spec := &e.Parameters[i]
		if !spec.appliesTo(form) {
			continue
		}
		text, ok := p[spec.Name]
		if !ok {
			text = spec.Default
		}
		if spec.Choices != nil {
			if !slices.Contains(spec.Choices, text) {
				return v, fmt.Errorf("%s: %q is not a choice; %s", spec.Name, text, nearest.Hint(text, spec.Choices))
			}
			v.words[spec.Name] = text
			continue
		}
		if of, by, fraction := strings.Cut(spec.Default, "/"); fraction && !ok {
			d, err := strconv.Atoi(by)
			if err != nil {
				return v, fmt.Errorf("%s: default %q: %w", spec.Name, spec.Default, err)
			}
			v.numbers[spec.Name] = max(1, v.numbers[of]/d)
			continue
		}
		x, err := strconv.Atoi(text)
		if err != nil || x < spec.Min || x > spec.Max {
			return v, fmt.Errorf("%s: %q is not an integer from %d to %d", spec.Name, text, spec.Min, spec.Max)
		}
		v.numbers[spec.Name] = x
	}
	return v, nil
}
