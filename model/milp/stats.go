package milp

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// Kinds counts columns by kind. An integer column with bounds within [0, 1] counts as binary, however it was
// declared.
type Kinds struct {
	Continuous int `json:"continuous"`
	Integer    int `json:"integer"`
	Binary     int `json:"binary"`
}

// Cols returns the number of columns.
func (k Kinds) Cols() int { return k.Continuous + k.Integer + k.Binary }

func (k *Kinds) add(kind Kind, lo, up float64) {
	switch {
	case kind == Continuous:
		k.Continuous++
	case lo >= 0 && up <= 1:
		k.Binary++
	default:
		k.Integer++
	}
}

// Range is the smallest and largest magnitude among finite nonzero numbers;
// {0, 0} if there are none.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

func (r *Range) add(x float64) {
	x = math.Abs(x)
	if x == 0 || isInf(x) {
		return
	}
	if r.Max == 0 || x < r.Min {
		r.Min = x
	}
	r.Max = math.Max(r.Max, x)
}

// String returns "2", "0.5 … 1e+06" or "-".
func (r Range) String() string {
	switch {
	case r.Max == 0:
		return "-"
	case r.Min == r.Max:
		return fmt.Sprintf("%.4g", r.Min)
	}
	return fmt.Sprintf("%.4g … %.4g", r.Min, r.Max)
}

// GroupStats are the statistics of one constraint group.
type GroupStats struct {
	GroupInfo
	Nonzeros int   `json:"nonzeros"`
	Columns  Kinds `json:"columns"` // that occur in the group
	Coef     Range `json:"coefficients"`
	Side     Range `json:"sides"`
}

// FamilyStats are the statistics of one family of columns.
type FamilyStats struct {
	Name     string `json:"name"`
	Columns  Kinds  `json:"columns"`
	Nonzeros int    `json:"nonzeros"`
	Cost     Range  `json:"costs"`
	Bound    Range  `json:"bounds"`
}

// Stats holds the sizes and magnitudes of a model, by constraint group and by family of columns. Solvers lose
// digits where magnitudes within a range differ by more than about 10⁶.
type Stats struct {
	Name     string        `json:"name"`
	Rows     int           `json:"rows"`
	Nonzeros int           `json:"nonzeros"`
	Columns  Kinds         `json:"columns"`
	Groups   []GroupStats  `json:"groups"`
	Families []FamilyStats `json:"families"`
}

// Stats returns the statistics of m as it is solved, without conditions ([Model.Plain]).
// O(columns + rows + nonzeros).
func (m *Model) Stats() *Stats {
	m = m.Plain()
	s := &Stats{Name: m.name, Rows: len(m.rowLower), Nonzeros: len(m.col), Columns: kinds(m)}
	entries := make([]int, len(m.lower)) // by column
	for _, info := range m.Groups() {
		s.Groups = append(s.Groups, GroupStats{GroupInfo: info})
	}
	byGroup := make([][]int32, len(m.groups))
	for i, g := range m.rowGroup {
		byGroup[g] = append(byGroup[g], int32(i))
	}
	seen := make([]int32, len(m.lower)) // 1 + the last group a column was seen in
	for g, rows := range byGroup {
		gs := &s.Groups[g]
		for _, i := range rows {
			r := m.Row(int(i))
			gs.Nonzeros += len(r.Col)
			gs.Side.add(r.Lower)
			gs.Side.add(r.Upper)
			for k, j := range r.Col {
				gs.Coef.add(r.Val[k])
				entries[j]++
				if seen[j] != int32(g+1) {
					seen[j] = int32(g + 1)
					gs.Columns.add(m.kind[j], m.lower[j], m.upper[j])
				}
			}
		}
	}
	index := map[string]int{} // of families with one column per call, as L[3,0]
	for i := range m.families {
		f := &m.families[i]
		name, _, _ := strings.Cut(f.name, "[")
		k, known := index[name]
		if !known {
			k = len(s.Families)
			index[name] = k
			s.Families = append(s.Families, FamilyStats{Name: name})
		}
		fs := &s.Families[k]
		for j := f.first; j < f.first+f.n; j++ {
			fs.Columns.add(m.kind[j], m.lower[j], m.upper[j])
			fs.Nonzeros += entries[j]
			fs.Cost.add(m.cost[j])
			fs.Bound.add(m.lower[j])
			fs.Bound.add(m.upper[j])
		}
	}
	return s
}

func kinds(m *Model) Kinds {
	var n Kinds
	for j, k := range m.kind {
		n.add(k, m.lower[j], m.upper[j])
	}
	return n
}

// String returns s as two tables.
func (s *Stats) String() string {
	var b strings.Builder
	b.WriteString(size(s.Name, s.Rows, s.Columns, s.Nonzeros) + "\n")
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\ngroup\tsource\trows\tnonzeros\tcontinuous\tinteger\tbinary\tcoefficients\tsides\n")
	for _, g := range s.Groups {
		source := g.Source
		if source == "" {
			source = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%v\t%v\n", g.Name, source, g.Rows, g.Nonzeros,
			g.Columns.Continuous, g.Columns.Integer, g.Columns.Binary, g.Coef, g.Side)
	}
	fmt.Fprintf(w, "\nvariables\t\tcolumns\tnonzeros\tcontinuous\tinteger\tbinary\tcosts\tbounds\n")
	for _, f := range s.Families {
		fmt.Fprintf(w, "%s\t\t%d\t%d\t%d\t%d\t%d\t%v\t%v\n", f.Name, f.Columns.Cols(), f.Nonzeros,
			f.Columns.Continuous, f.Columns.Integer, f.Columns.Binary, f.Cost, f.Bound)
	}
	w.Flush()
	return b.String()
}
