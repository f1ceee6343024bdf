package results

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep/store"
	"workbench/model/platform"
)

// StatusFormat names the format of a list of [NightStatus].
const StatusFormat = "workbench.status/v1"

// NightStatus is a night in one line.
type NightStatus struct {
	Folder   string    `json:"folder"`
	Sweep    string    `json:"sweep"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"` // of the last row
	Versions []string  `json:"versions"`
	Tasks    int       `json:"tasks"`
	Failed   int       `json:"failed"`  // tasks that did not end as they should
	Missing  int       `json:"missing"` // tasks without a row
	// Regressions counts those against the night before by kind, Verdict is the comparison's last
	// line; empty: there is no night before.
	Regressions map[Kind]int `json:"regressions"`
	Verdict     string       `json:"verdict"`
}

// Nights returns the folders of sweeps in dir that have rows, the oldest first.
func Nights(dir string) (list []Source, err error) {
	folders, err := filepath.Glob(filepath.Join(dir, "*"))
	if err == nil && len(folders) == 0 {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return nil, solve.InputError(err)
	}
	for _, folder := range folders {
		if !store.Exists(folder) {
			continue
		}
		n, err := ReadNight(folder)
		if err != nil {
			return nil, err
		}
		if len(n.Rows) > 0 {
			list = append(list, Source{folder, n})
		}
	}
	slices.SortStableFunc(list, func(a, b Source) int { return began(a.Night).Compare(began(b.Night)) })
	return list, nil
}

// StatusOf returns the last count nights, the oldest first, each compared with the one before.
func StatusOf(nights []Source, count int, o Options) (list []NightStatus) {
	for k := max(0, len(nights)-count); k < len(nights); k++ {
		n := nights[k].Night
		s := NightStatus{
			Folder: nights[k].Folder, Sweep: n.Name, Started: began(n), Versions: n.Versions(),
			Missing: len(n.Missing()), Regressions: map[Kind]int{},
		}
		for _, r := range n.Rows {
			reason, _ := Failure(r)
			s.Failed += bit(reason != "" && reason != NoPlan)
			if r.Finished.After(s.Finished) {
				s.Finished = r.Finished
			}
		}
		s.Tasks = len(n.Rows) + s.Missing
		if k > 0 {
			c, err := Compare(nights[k-1].Night, n, o)
			if err != nil {
				s.Verdict = "another sweep than the night before"
			} else {
				s.Verdict = c.Verdict()
				for _, f := range c.Findings {
					s.Regressions[f.Kind] += bit(f.Regression)
				}
			}
		}
		list = append(list, s)
	}
	return list
}

// Regressed reports whether the night is worse than the one before.
func (s *NightStatus) Regressed() bool { return strings.HasPrefix(s.Verdict, "REGRESSION") }

// WriteStatus writes a line a night.
func WriteStatus(w io.Writer, nights []NightStatus) {
	for _, s := range nights {
		fmt.Fprintf(w, "%s  %s  %s  %d of %s done, %d failed", s.Started.UTC().Format("2006-01-02 15:04"), filepath.Base(s.Folder),
			listed(s.Versions),
			s.Tasks-s.Missing, platform.Count(s.Tasks, "task"), s.Failed)
		if s.Verdict != "" {
			fmt.Fprintf(w, "; %s", s.Verdict)
		}
		fmt.Fprintln(w)
	}
}

// WritePrometheus writes the last night in the text format of Prometheus, for the textfile collector
// of the node exporter.
func WritePrometheus(w io.Writer, s NightStatus) error {
	label := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s.Sweep)
	var b strings.Builder
	metric := func(name, help string, values ...string) {
		fmt.Fprintf(&b, "# HELP workbench_sweep_%s %s\n# TYPE workbench_sweep_%s gauge\n", name, help, name)
		for _, v := range values {
			fmt.Fprintf(&b, "workbench_sweep_%s%s\n", name, v)
		}
	}
	one := func(value int64) string { return fmt.Sprintf(`{sweep="%s"} %d`, label, value) }
	metric("tasks", "Tasks of the last night.", one(int64(s.Tasks)))
	metric("failed_tasks", "Tasks of the last night that did not end as they should.", one(int64(s.Failed)))
	metric("missing_tasks", "Tasks of the last night without a row.", one(int64(s.Missing)))
	metric("start_timestamp_seconds", "When the last night began.", one(s.Started.Unix()))
	metric("end_timestamp_seconds", "When the last row of the last night was finished.", one(s.Finished.Unix()))
	var counts []string
	for _, k := range kinds {
		if k.Regression() {
			counts = append(counts, fmt.Sprintf(`{sweep="%s",kind="%s"} %d`, label, k, s.Regressions[k]))
		}
	}
	metric("regressions", "Regressions of the last night against the one before, by kind.", counts...)
	_, err := io.WriteString(w, b.String())
	return err
}

// Prune removes the oldest nights but the last keep; dry: it only returns them. A night in use by
// another process is kept.
func Prune(nights []Source, keep int, dry bool) (removed []string, err error) {
	for _, s := range nights[:max(0, len(nights)-keep)] {
		if !dry {
			if err := store.Remove(s.Folder); err != nil {
				return removed, err
			}
		}
		removed = append(removed, s.Folder)
	}
	return removed, nil
}
