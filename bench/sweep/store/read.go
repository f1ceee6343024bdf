package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

// Contents is the content of a store.
type Contents struct {
	Sweep string // name; empty: no rows
	// Rows has one row per task, in the order of the files; of several, the better one (see [sweep.Row.Better]).
	Rows         []*sweep.Row
	Environments map[string]sweep.Environment // by digest
	Repeated     int                          // further rows of tasks
	// Damaged lists the lines that were changed after they were written. Their tasks have no rows, unless
	// elsewhere.
	Damaged []Damage
	// Torn lists the files whose last line is incomplete.
	Torn []string
}

// Damage is a line that was changed after it was written.
type Damage struct {
	File string
	Line int
	Why  string
	Text string
	// Unsummed reports that the line is valid except for a missing checksum.
	Unsummed bool
}

func (d Damage) String() string {
	return fmt.Sprintf("%s:%d: line %s: %s", d.File, d.Line, d.Why, short(d.Text))
}

// Read reads the store in a folder, all its files rows*.jsonl, or in one file. Damaged lines are reported in
// Contents. A valid line of a newer format or a row of another sweep is a user error that names file and line.
// O(size).
func Read(path string) (*Contents, error) {
	c := &Contents{Environments: map[string]sweep.Environment{}}
	position := map[string]int{}
	err := scan(path, &c.Sweep, func(p place, l Line) error {
		if l.Environment != nil {
			c.Environments[l.Environment.Digest] = *l.Environment
			return nil
		}
		i, seen := position[l.Row.ID]
		if !seen {
			position[l.Row.ID] = len(c.Rows)
			c.Rows = append(c.Rows, l.Row)
			return nil
		}
		c.Repeated++
		if l.Row.Better(c.Rows[i]) {
			c.Rows[i] = l.Row
		}
		return nil
	}, func(d Damage, torn bool) {
		if torn {
			c.Torn = append(c.Torn, d.File)
		} else {
			c.Damaged = append(c.Damaged, d)
		}
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// place is the position of a line.
type place struct {
	file string
	line int
}

// scan reads all lines of a store. sound is called for each valid line, damaged for each other. name is the
// sweep's; if it is empty, the first row sets it.
func scan(path string, name *string, sound func(place, Line) error, damaged func(d Damage, torn bool)) error {
	files, err := rowFiles(path)
	if err != nil {
		return err
	}
	if s, err := ReadTasks(path); err == nil && *name == "" {
		*name = s.Name
	}
	for _, file := range files {
		if err := scanFile(file, name, sound, damaged); err != nil {
			return err
		}
	}
	return nil
}

func scanFile(file string, name *string, sound func(place, Line) error, damaged func(d Damage, torn bool)) error {
	f, err := os.Open(file)
	if err != nil {
		return solve.InputError(fmt.Errorf("store %s cannot be read: %w", file, err))
	}
	defer f.Close()
	return eachLine(f, func(n int, text []byte, ended bool) error {
		if len(text) == 0 {
			return nil // from concatenated files
		}
		l, err := Decode(text)
		switch {
		case err != nil && (Damaged(err) || !ended):
			damaged(Damage{file, n, err.Error(), string(text), ended && errors.Is(err, errUnsummed)}, !ended)
			return nil
		case err != nil:
			return solve.InputError(fmt.Errorf("%s:%d: %w: a newer workbench may have written it", file, n, err))
		case l.Row != nil && *name == "":
			*name = l.Row.Sweep
		case l.Row != nil && *name != l.Row.Sweep:
			return solve.InputError(fmt.Errorf("%s:%d: the row is of sweep %q, the store of %q: keep them in folders of their own", file, n,
				l.Row.Sweep, *name))
		}
		return sound(place{file, n}, l)
	})
}

// Plan returns the JSON of the plan with that digest.
func Plan(dir, digest string) ([]byte, error) {
	if len(digest) < 3 || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, solve.InputError(fmt.Errorf("%q is no digest of a plan", digest))
	}
	return readPlan(filepath.Join(dir, plansName, digest[:2], digest[2:]+planSuffix))
}

// DamageSummary counts the unusable lines and names the first of each kind: "2 lines without checksum
// (rows.jsonl:2), 1 damaged line (rows.jsonl:7)"; "" if there is none. Descriptions of machines are not counted,
// since no row is lost.
func DamageSummary(lines []Damage) string {
	var unsummed, damaged []Damage
	for _, d := range lines {
		switch {
		case d.Unsummed && strings.Contains(d.Text, environmentStart):
		case d.Unsummed:
			unsummed = append(unsummed, d)
		default:
			damaged = append(damaged, d)
		}
	}
	var parts []string
	add := func(list []Damage, after string, what string) {
		if len(list) > 0 {
			count := platform.Count(len(list), what)
			parts = append(parts, fmt.Sprintf("%s%s (%s:%d)", count, after, list[0].File, list[0].Line))
		}
	}
	add(unsummed, " without checksum", "line")
	add(damaged, "", "damaged line")
	return strings.Join(parts, ", ")
}
