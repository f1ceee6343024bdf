package results

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"workbench/bench/sweep"
	"workbench/model/nearest"
)

// Record is a row, flat: the columns of CSV and Parquet, in this order. A column is named as the field of row/v1 that it has,
// whether of the task, the result or the failure, with _ where that is inside another (bound_by). Only task_gap is gap there, as gap
// is that of result/v1. The others follow from all rows. Nil is no number.
type Record struct {
	CaseColumns
	SettingColumns
	ResultColumns
	RunColumns
}

// CaseColumns are what was run.
type CaseColumns struct {
	Sweep        string   `parquet:"sweep"`
	ID           string   `parquet:"id"`
	Problem      string   `parquet:"problem"`
	Method       string   `parquet:"method"`
	Kind         string   `parquet:"kind"`
	Name         string   `parquet:"name"`     // of the instance
	Instance     string   `parquet:"instance"` // as commands take it
	SHA256       string   `parquet:"sha256"`
	Memory       float64  `parquet:"memory"`
	MemoryName   string   `parquet:"memory_name"`
	Bandwidth    *float64 `parquet:"bandwidth"`
	Processors   int64    `parquet:"processors"`
	WeightCopies int64    `parquet:"weight_copies"`
	Replicas     bool     `parquet:"replicas"`
	MemoryModel  string   `parquet:"memory_model"`
	MicroBatches int64    `parquet:"micro_batches"`
	Placement    string   `parquet:"placement"`
	Minimised    string   `parquet:"minimised"`
	Model        string   `parquet:"model"`
}

// SettingColumns are how.
type SettingColumns struct {
	Slots      int64    `parquet:"slots"`
	Backend    string   `parquet:"backend"`
	Threads    int64    `parquet:"threads"`
	TimeLimit  *float64 `parquet:"time_limit"`
	TaskGap    float64  `parquet:"task_gap"` // that was asked for
	Seed       int64    `parquet:"seed"`
	Repetition int64    `parquet:"repetition"`
	Version    string   `parquet:"version"`
}

// ResultColumns are what came of it.
type ResultColumns struct {
	// Status is that of the result, Reason why there is nothing to show; "" if there is.
	Status     string   `parquet:"status"`
	Reason     string   `parquet:"reason"`
	Failed     bool     `parquet:"failed"` // there is a reason
	Proved     bool     `parquet:"proved"`
	Stopped    bool     `parquet:"stopped"` // the time is only where it was stopped
	Detail     string   `parquet:"detail"`
	Objective  *float64 `parquet:"objective"`
	Bound      *float64 `parquet:"bound"`
	BoundBy    string   `parquet:"bound_by"`
	BoundProof string   `parquet:"bound_proof"`
	Gap        *float64 `parquet:"gap"`        // to the run's own bound
	BestBound  *float64 `parquet:"best_bound"` // of all rows of the same instance and limits
	BestGap    *float64 `parquet:"best_gap"`
	PeakMemory *float64 `parquet:"peak_memory"`
	Throughput *float64 `parquet:"throughput"` // samples per second
	Time       float64  `parquet:"time"`       // what comparisons use: see [Time]
	WallTime   float64  `parquet:"wall_time"`
	CPUTime    *float64 `parquet:"cpu_time"`
	Nodes      *int64   `parquet:"nodes"`
	PeakRSS    *int64   `parquet:"peak_rss"`

	UnitsObjective string `parquet:"units_objective"` // of bounds, too
	UnitsMemory    string `parquet:"units_memory"`
	UnitsTime      string `parquet:"units_time"`
}

// RunColumns are where and when, and the command that repeats it.
type RunColumns struct {
	Attempt     int64  `parquet:"attempt"`
	Worker      string `parquet:"worker"`
	Started     string `parquet:"started"` // RFC 3339, UTC
	Finished    string `parquet:"finished"`
	Environment string `parquet:"environment"`
	Plan        string `parquet:"plan"` // digest
	Command     string `parquet:"command"`
}

// Records returns the rows of a night, sorted by what was run. O(n log n).
func Records(n *Night) []Record {
	facts := FactsOf(n.Rows)
	list := slices.Clone(n.Rows)
	slices.SortFunc(list, func(a, b *sweep.Row) int {
		x, y := &a.Task, &b.Task
		return cmp.Or(
			cmp.Compare(x.Problem, y.Problem), cmp.Compare(InstanceName(a), InstanceName(b)), cmp.Compare(x.SHA256, y.SHA256),
			cmp.Compare(x.Memory, y.Memory), cmp.Compare(x.Method, y.Method), cmp.Compare(x.Seed, y.Seed), cmp.Compare(x.Repetition, y.Repetition),
			cmp.Compare(a.ID, b.ID),
		)
	})
	records := make([]Record, len(list))
	for i, r := range list {
		records[i] = record(r, facts)
	}
	return records
}

func record(r *sweep.Row, facts Facts) Record {
	t := &r.Task
	reason, detail := Failure(r)
	x := Record{CaseColumns{
		Sweep: r.Sweep, ID: r.ID, Problem: t.Problem, Method: t.Method,
		Name: InstanceName(r), Instance: t.Instance, SHA256: t.SHA256,
		Memory: t.Memory, MemoryName: t.MemoryName, Bandwidth: positive(t.Bandwidth),
		Processors: int64(t.Processors), WeightCopies: int64(t.WeightCopies), Replicas: t.Replicas, MemoryModel: t.MemoryModel,
		MicroBatches: int64(t.MicroBatches), Placement: t.Placement, Minimised: t.Minimised, Model: t.Model,
	}, SettingColumns{
		Slots: int64(t.Slots), Backend: t.Backend, Threads: int64(t.Threads), TimeLimit: positive(t.TimeLimit), TaskGap: t.Gap,
		Seed: int64(t.Seed), Repetition: int64(t.Repetition), Version: t.Version,
	}, ResultColumns{
		Reason: reason, Failed: reason != "", Proved: Proved(r), Stopped: Stopped(r), Detail: detail, Time: Time(r), WallTime: wallTime(r),
	}, RunColumns{
		int64(r.Attempt), r.Worker, moment(r.Started), moment(r.Finished), r.Environment, r.Plan, Command(t),
	}}
	u := sweep.UnitsOf(t.Problem)
	x.UnitsObjective, x.UnitsMemory, x.UnitsTime = u.Objective, u.Memory, u.Time
	if r.PeakRSS > 0 {
		x.PeakRSS = &r.PeakRSS
	}
	if res := r.Result; res != nil {
		x.Status = string(res.Status)
		x.Kind, x.PeakMemory, x.Throughput, x.CPUTime, x.Nodes, x.Gap = string(res.Kind), res.PeakMemory, res.Throughput, positive(res.CPUTime),
			res.Nodes, res.Gap
		if x.Detail == "" {
			x.Detail = res.Note
		}
	}
	if b, ok := Bound(r); ok {
		x.Bound, x.BoundBy, x.BoundProof = &b.Value, b.By, string(b.Proof)
	}
	if best := facts.Bound(CaseOf(t)); best != nil {
		x.BestBound = &best.Result.Bound.Value
	}
	if v, ok := Objective(r); ok {
		x.Objective = &v
		if x.BestBound != nil {
			gap := Gap(v, *x.BestBound)
			x.BestGap = &gap
		}
	}
	return x
}

func positive(x float64) *float64 {
	if x > 0 {
		return &x
	}
	return nil
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Formats are what [Write] knows.
var Formats = []string{"csv", "parquet", "benchfmt"}

// Write writes the night in one of the [Formats].
func Write(w io.Writer, n *Night, format string) error {
	switch format {
	case "csv":
		return writeCSV(w, n)
	case "parquet":
		return writeParquet(w, n)
	case "benchfmt":
		return writeBenchfmt(w, n)
	}
	return fmt.Errorf("format %q: %s", format, nearest.Hint(format, Formats))
}

// writeCSV writes a header and a line for each row; what is no number is empty.
func writeCSV(w io.Writer, n *Night) error {
	c := csv.NewWriter(w)
	fields := columns()
	line := make([]any, len(fields))
	for i, f := range fields {
		line[i] = f.Tag.Get("parquet")
	}
	if err := c.Write(cells(line...)); err != nil {
		return err
	}
	for _, r := range Records(n) {
		for i, f := range fields {
			line[i] = reflect.ValueOf(r).FieldByIndex(f.Index).Interface()
		}
		if err := c.Write(cells(line...)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// columns returns the fields of a record.
func columns() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Record]()), func(f reflect.StructField) bool { return f.Anonymous })
}

// cells writes the values of a line of a table: numbers such that they are read back to the same, no number and nil as nothing.
func cells(values ...any) []string {
	line := make([]string, len(values))
	for i, x := range values {
		v := reflect.ValueOf(x)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		line[i] = fmt.Sprint(v)
		if v.CanFloat() {
			line[i] = Digits(v.Float())
		}
	}
	return line
}

// buffered writes through a buffer and returns the first error.
func buffered(w io.Writer, f func(*bufio.Writer)) error {
	b := bufio.NewWriter(w)
	f(b)
	return b.Flush()
}
